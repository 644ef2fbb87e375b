//! What is wrong with a request: a canonical code and a line that names the object, the field and the value.

use std::fmt;

use p4info::google::rpc;
use p4info::p4::v1::Error;
use prost::Message;
use switch::{ControlCode, ControlError};
use tonic::{Code, Status};

/// The space of [`Error::code`]: ours has no codes beyond the canonical ones.
const SPACE: &str = "polyplane";

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// What may be refused.
pub(crate) type Checked<T = ()> = Result<T, Fault>;

/// A refusal.
pub(crate) fn refuse<T>(code: Code, message: impl Into<String>) -> Checked<T> {
    Err(Fault::new(code, message))
}

/// A refusal of something malformed.
pub(crate) fn invalid<T>(message: impl Into<String>) -> Checked<T> {
    refuse(Code::InvalidArgument, message)
}

impl Fault {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
        }
    }

    /// The same with where it was found.
    pub(crate) fn within(self, place: &str) -> Fault {
        Fault {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }

    /// The same fault under another code.
    pub(crate) fn coded(self, code: Code) -> Fault {
        Fault { code, ..self }
    }

    fn error(&self) -> Error {
        Error {
            canonical_code: self.code as i32,
            message: self.message.clone(),
            space: SPACE.to_owned(),
            ..Error::default()
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ControlError> for Fault {
    fn from(error: ControlError) -> Fault {
        let code = match error.code {
            ControlCode::InvalidArgument => Code::InvalidArgument,
            ControlCode::NotFound => Code::NotFound,
            ControlCode::AlreadyExists => Code::AlreadyExists,
            ControlCode::ResourceExhausted => Code::ResourceExhausted,
            ControlCode::PermissionDenied => Code::PermissionDenied,
            ControlCode::FailedPrecondition => Code::FailedPrecondition,
        };
        Fault::new(code, error.message)
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        Status::new(fault.code, shortened(fault.message))
    }
}

/// The longest message of a status, in bytes: it travels in a header, of which clients take 8 KiB, and may repeat what a client sent.
const MOST_MESSAGE: usize = 4096;

fn shortened(mut message: String) -> String {
    if message.len() > MOST_MESSAGE {
        let is_end = |end: &usize| message.is_char_boundary(*end);
        let end = (0..=MOST_MESSAGE).rev().find(is_end).unwrap_or(0);
        message.truncate(end);
        message.push_str(" ...");
    }
    message
}

/// The bytes of all messages in the details of a status, which travel in a header as well: clients take 16 KiB of headers or more.
const MOST_DETAILED: usize = 4096;

/// The most elements of a batch whose errors are told one by one.
const MOST_DETAILS: usize = 1 << 16;

/// The status of a batch: one error for each element, in order, if there is one at all (section "Error Reporting Messages"). Of many, the first ones say
/// what is wrong, and the others have their codes; of very many there is a message only.
pub(crate) fn batch_status(results: &[Checked]) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let Some(first) = results.iter().find_map(|result| result.as_ref().err()) else {
        return Ok(());
    };
    let message = match results.len() {
        1 => first.message.clone(),
        all => format!("{failed} of {all} failed; the first: {first}"),
    };
    let message = shortened(message);
    if results.len() > MOST_DETAILS {
        return Err(Status::new(Code::Unknown, message));
    }
    let mut room = MOST_DETAILED;
    let mut error = |fault: &Fault| {
        let mut error = fault.error();
        error.message = shortened(error.message);
        match room.checked_sub(error.message.len()) {
            Some(left) => room = left,
            None => error.message.clear(),
        }
        error
    };
    let detail = |result: &Checked| prost_types::Any {
        type_url: "type.googleapis.com/p4.v1.Error".to_owned(),
        value: match result {
            Ok(()) => Error::default(),
            Err(fault) => error(fault),
        }
        .encode_to_vec(),
    };
    let status = rpc::Status {
        code: Code::Unknown as i32,
        message: message.clone(),
        details: results.iter().map(detail).collect(),
    };
    let details = status.encode_to_vec().into();
    Err(Status::with_details(Code::Unknown, message, details))
}
