//! Writes and reads.

use std::sync::Arc;
use std::time::Instant;

use p4info::p4::v1 as rt;
use p4info::p4::v1::WriteRequest;
use p4info::p4::v1::write_request::Atomicity;
use tokio::sync::mpsc;
use tonic::Status;

use super::DeviceService;
use crate::batch;
use crate::managed::ProposedUpdates;
use crate::pending_commits::{self, Waiting};
use crate::pipeline::DeviceTarget;
use crate::read;
use crate::request_error::{Checked, batch_status};
use crate::schema::Schema;
use crate::undo::{Op, Target};
use crate::write::{self, Seen};

/// Maximum number of updates of a non-atomic batch that one job makes. `PART` applies to a device
/// of which packets wait for the job, and `PART_APART` to others.
const PART: usize = 64;
const PART_APART: usize = 1024;

/// Results of a batch's updates, and the receiver that reports when they are durable.
type Made = (Vec<Checked>, Option<Waiting>);

impl DeviceService {
    /// Makes a batch of updates, and waits until it is durable.
    pub(crate) async fn write(&self, request: WriteRequest) -> Result<(), Status> {
        let begin = Instant::now();
        let count = request.updates.len();
        let results = self.make_and_keep(&request).await;
        self.cells.wrote(begin.elapsed());
        let refused = match &results {
            Ok(results) => results.iter().filter(|result| result.is_err()).count(),
            Err(_) => count,
        };
        self.cells.refused.add(refused);
        self.cells.updates.add(count - refused);
        let status = results.and_then(|results| batch_status(&results));
        self.lines.wrote(count, refused, begin.elapsed(), &status);
        status
    }

    async fn make_and_keep(&self, request: &WriteRequest) -> Result<Vec<Checked>, Status> {
        let ((mut results, waiting), proposed) = self.make(request).await?;
        // No lock is held here. Other batches can be written meanwhile, and one sync stores them
        // together.
        if let Some(waiting) = waiting
            && let Err(fault) = pending_commits::check(waiting.await)
        {
            self.take_back().await?;
            if proposed.is_empty() {
                return Err(fault.into());
            }
            results.fill(Err(fault));
        }
        Ok(proposed.complete(results).await)
    }

    /// Makes the updates of a batch, and proposes those of managed tables.
    async fn make(&self, request: &WriteRequest) -> Result<(Made, ProposedUpdates), Status> {
        let pipeline = self.pipeline.write().await;
        self.check_primary(&request.role, request.election_id.as_ref())?;
        let (config, ground) = pipeline.current()?;
        let schema = &config.schema;
        let updates = request.updates.iter();
        let mut ops: Vec<Checked<Op>> = updates
            .map(|update| write::convert(schema, &request.role, update))
            .collect();
        let Ok(atomicity) = Atomicity::try_from(request.atomicity) else {
            let message = format!("there is no atomicity {}", request.atomicity);
            return Err(Status::invalid_argument(message));
        };
        let proposed = match ground {
            DeviceTarget::Running => self.propose(schema, request, &mut ops)?,
            DeviceTarget::Saved(_) => {
                self.refuse_managed(schema, request, &mut ops);
                ProposedUpdates::default()
            }
        };
        if ops.is_empty() && !proposed.is_empty() {
            return Ok(((Vec::new(), None), proposed));
        }
        let made = match atomicity {
            Atomicity::ContinueOnError => self.write_each(schema, &ground, ops).await?,
            Atomicity::RollbackOnError => self.write_all(schema, &ground, ops).await?,
            Atomicity::DataplaneAtomic => {
                write::check_at_once(schema, &request.updates)?;
                let seen = request.updates.iter().map(write::seen).collect();
                self.write_at_once(schema, &ground, ops, seen).await?
            }
        };
        Ok((made, proposed))
    }

    /// Undoes the changes that could not be stored.
    async fn take_back(&self) -> Checked {
        let _pipeline = self.pipeline.write().await;
        let unkept = Arc::clone(&self.unkept);
        self.on(&DeviceTarget::Running, move |device, extras| {
            pending_commits::take_back(device, extras, &unkept);
        })
        .await
    }

    /// Makes each update independently.
    async fn write_each(
        &self,
        schema: &Arc<Schema>,
        ground: &DeviceTarget,
        ops: Vec<Checked<Op>>,
    ) -> Checked<Made> {
        let mut results = Vec::with_capacity(ops.len());
        let mut undos = Vec::new();
        let mut ops = ops.into_iter().peekable();
        let mut most = PART;
        loop {
            let part: Vec<Checked<Op>> = ops.by_ref().take(most).collect();
            let is_last = ops.peek().is_none();
            let (names, unkept) = (Arc::clone(&schema.names), Arc::clone(&self.unkept));
            let made = self.on(ground, move |device, extras| {
                device.hold();
                let is_kept = device.is_kept();
                let mut target = Target::new(device, extras, is_kept);
                let made = part.into_iter().map(|op| op.and_then(|op| op(&mut target)));
                let made: Vec<Checked> = made.collect();
                undos.append(&mut target.into_undos());
                if !is_last {
                    return (made, undos, None, device.delays_no_packets());
                }
                let waiting = pending_commits::commit(device, extras, &names, undos, &unkept);
                device.publish();
                (made, Vec::new(), waiting, false)
            });
            let (made, rest, waiting, is_apart) = made.await?;
            undos = rest;
            most = if is_apart { PART_APART } else { PART };
            results.extend(made);
            if is_last {
                return Ok((results, waiting));
            }
        }
    }

    /// Makes all updates or none, between two packets of the device's own thread. Workers see
    /// changed cells immediately, and all other changes when they are published.
    async fn write_all(
        &self,
        schema: &Arc<Schema>,
        ground: &DeviceTarget,
        ops: Vec<Checked<Op>>,
    ) -> Checked<Made> {
        let seen = vec![Seen::WhenPublished; ops.len()];
        self.write_at_once(schema, ground, ops, seen).await
    }

    /// Makes all updates or none. Changes that packets see immediately are made while no worker is
    /// processing packets. So every packet sees all updates or none (section "Batch Atomicity").
    async fn write_at_once(
        &self,
        schema: &Arc<Schema>,
        ground: &DeviceTarget,
        ops: Vec<Checked<Op>>,
        seen: Vec<Seen>,
    ) -> Checked<Made> {
        let ops = match batch::well_formed(ops) {
            Ok(ops) => ops,
            Err(results) => return Ok((results, None)),
        };
        let (names, unkept) = (Arc::clone(&schema.names), Arc::clone(&self.unkept));
        let made = self.on(ground, move |device, extras| {
            device.hold();
            let (results, undos) = batch::make(device, extras, ops, &seen);
            let waiting = pending_commits::commit(device, extras, &names, undos, &unkept);
            device.publish();
            (results, waiting)
        });
        made.await
    }

    /// Reads entities. Each part is sent as soon as it is ready.
    pub(crate) async fn read(
        &self,
        request: rt::ReadRequest,
        answers: &mpsc::Sender<Result<rt::ReadResponse, Status>>,
    ) -> Result<(), Status> {
        self.cells.reads.add(1);
        let (schema, results, found) = self.collect(&request).await?;
        for found in found {
            let entities = found.entities(&schema);
            for part in entities.chunks(1024) {
                let response = rt::ReadResponse {
                    entities: part.to_vec(),
                };
                if answers.send(Ok(response)).await.is_err() {
                    return Ok(());
                }
            }
            tokio::task::yield_now().await;
        }
        batch_status(&results)
    }

    /// Collects the requested data, between two writes.
    async fn collect(
        &self,
        request: &rt::ReadRequest,
    ) -> Checked<(Arc<Schema>, Vec<Checked>, Vec<read::Found>)> {
        let pipeline = self.pipeline.read().await;
        let (config, ground) = pipeline.current()?;
        let schema = Arc::clone(&config.schema);
        let mut found = Vec::new();
        let mut results = Vec::new();
        for entity in &request.entities {
            let mut query = match read::plan(&schema, &request.role, entity) {
                Ok(query) => query,
                Err(fault) => {
                    results.push(Err(fault));
                    continue;
                }
            };
            let result = loop {
                let own = Arc::clone(&schema);
                let part = self.on(&ground, move |device, extras| {
                    let part = query.collect(&own, device, extras);
                    (query, part)
                });
                let (rest, part) = part.await?;
                query = rest;
                match part {
                    Ok(Some(part)) => found.push(part),
                    Ok(None) => break Ok(()),
                    Err(fault) => break Err(fault),
                }
            };
            results.push(result);
        }
        Ok((schema, results, found))
    }
}
