//! Results of reductions as files, for `run --out DIR`.

use std::path::Path;

use aggregate::Job;
use aggregate_runtime::bytes_of;

use super::Ran;
use crate::{artefacts, out};

/// Makes the directory of results, before anything is started.
pub(super) fn prepare(directory: Option<&Path>) -> Result<(), String> {
    let Some(directory) = directory else {
        return Ok(());
    };
    std::fs::create_dir_all(directory).map_err(|error| {
        let directory = directory.display();
        format!("cannot make the directory {directory}: {error}")
    })
}

/// Writes a file for each complete reduction: `NAME.tsv` with a line `KEY<TAB>VALUE` for each key,
/// or `NAME.bin` with the values of a vector.
pub(super) fn write(directory: &Path, job: &Job, ran: &[Ran]) -> Result<(), String> {
    let complete = job.reducers.iter().zip(ran);
    for (reducer, ran) in complete.filter(|(_, ran)| ran.is_complete) {
        let (end, bytes) = match &ran.vector {
            Some(vector) => ("bin", bytes_of(vector)),
            None => ("tsv", lines_of(ran)),
        };
        let path = directory.join(format!("{}.{end}", reducer.name));
        artefacts::write(&path, &bytes)?;
        out::note(&format!("{} is written", path.display()));
    }
    Ok(())
}

fn lines_of(ran: &Ran) -> Vec<u8> {
    let mut lines = Vec::new();
    for pair in &ran.result {
        lines.extend_from_slice(&pair.key);
        lines.extend(format!("\t{}\n", pair.value).into_bytes());
    }
    lines
}
