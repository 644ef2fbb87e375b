//! Errors of requests: a canonical code and a line that names the object, the field and the value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use p4info::google::rpc;
use p4info::p4::v1::Error;
use prost::Message;
use switch::{ControlCode, ControlError};
use tonic::{Code, Status};

use crate::tenants::TenancyError;

/// Value of [`Error::space`]. This server has no codes beyond the canonical ones.
const SPACE: &str = "polyplane";

/// An error: a canonical code and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Result of an operation that may be refused.
pub(crate) type Checked<T = ()> = Result<T, RequestError>;

/// Returns an error with a code and message.
pub(crate) fn refuse<T>(code: Code, message: impl Into<String>) -> Checked<T> {
    Err(RequestError::new(code, message))
}

/// Returns the error for a malformed request (`INVALID_ARGUMENT`).
pub(crate) fn invalid<T>(message: impl Into<String>) -> Checked<T> {
    refuse(Code::InvalidArgument, message)
}

impl RequestError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> RequestError {
        RequestError {
            code,
            message: message.into(),
        }
    }

    /// Returns the error with the place where it occurred as prefix.
    pub(crate) fn within(self, place: &str) -> RequestError {
        RequestError {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }

    /// Returns the error with advice after its message.
    pub(crate) fn followed_by(self, advice: &str) -> RequestError {
        RequestError {
            message: format!("{}; {advice}", self.message),
            ..self
        }
    }

    /// Returns the error with another code.
    pub(crate) fn coded(self, code: Code) -> RequestError {
        RequestError { code, ..self }
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

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ControlError> for RequestError {
    fn from(error: ControlError) -> RequestError {
        let code = match error.code {
            ControlCode::InvalidArgument => Code::InvalidArgument,
            ControlCode::NotFound => Code::NotFound,
            ControlCode::AlreadyExists => Code::AlreadyExists,
            ControlCode::ResourceExhausted => Code::ResourceExhausted,
            ControlCode::PermissionDenied => Code::PermissionDenied,
            ControlCode::FailedPrecondition => Code::FailedPrecondition,
        };
        RequestError::new(code, error.message)
    }
}

impl From<TenancyError> for RequestError {
    fn from(denial: TenancyError) -> RequestError {
        RequestError::new(denial.code, denial.message)
    }
}

impl From<RequestError> for Status {
    fn from(fault: RequestError) -> Status {
        Status::new(fault.code, shortened(fault.message, MAX_MESSAGE))
    }
}

/// Bytes of headers that clients accept by default: gRPC's soft limit for metadata. Clients drop a
/// larger status and report another error.
const METADATA: usize = 8192;

/// Bytes reserved for headers other than the status message and details. Each header counts 32
/// bytes more in HTTP/2.
const BESIDE: usize = 512;

/// Maximum encoded length of a status message. The message may repeat what a client sent.
const MAX_MESSAGE: usize = METADATA - BESIDE;

/// Maximum length of a message that is sent with details, which contain it a second time.
const MAX_SUMMARY: usize = 1024;

/// Maximum size of details in bytes. Base64 makes them a third longer.
const MAX_DETAILS: usize = (METADATA - BESIDE - MAX_SUMMARY) / 4 * 3;

/// Marks the end of a truncated text.
const CUT: &str = " ...";

/// Returns the number of bytes of a character in the header `grpc-message`. Everything but
/// printable ASCII is percent-encoded, and so is `%` (gRPC over HTTP/2, "Status-Message"). Some
/// implementations also encode other ASCII characters.
fn travels(c: char) -> usize {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | '/' | ':' | ',' | ';' | '(' | ')' => {
            1
        }
        c => 3 * c.len_utf8(),
    }
}

/// Truncates a text so that its encoding has at most `most` bytes.
fn shortened(mut message: String, most: usize) -> String {
    let mut room = most;
    let mut fitting = 0;
    let of_cut: usize = CUT.chars().map(travels).sum();
    for (at, c) in message.char_indices() {
        if room >= of_cut {
            fitting = at;
        }
        match room.checked_sub(travels(c)) {
            Some(left) => room = left,
            None => {
                message.truncate(fitting);
                message.push_str(CUT);
                break;
            }
        }
    }
    message
}

/// Returns the status of a batch: one error for each update, in order, if any failed (section
/// "Error Reporting Messages").
///
/// The status fits into the metadata that clients accept. If not all messages fit, only the first
/// error of each kind has a message, and the others have their codes. If that is still too long,
/// messages are shortened. For very large batches there is only a message that counts the errors by
/// code.
pub(crate) fn batch_status(results: &[Checked]) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let Some(first) = results.iter().find_map(|result| result.as_ref().err()) else {
        return Ok(());
    };
    let message = match results.len() {
        1 => first.message.clone(),
        all => format!(
            "{failed} of {all} failed ({}); the first: {first}",
            by_code(results)
        ),
    };
    let message = shortened(message, MAX_SUMMARY);
    // Each format is shorter than the one before.
    let ways = [usize::MAX, 256, 64, 0].map(|most| Telling {
        most,
        of_each_kind: most < usize::MAX,
    });
    for way in ways {
        let details = way.details(results, &message);
        if details.len() <= MAX_DETAILS {
            let details = details.into();
            return Err(Status::with_details(Code::Unknown, message, details));
        }
    }
    Err(Status::new(Code::Unknown, message))
}

/// Counts the errors of a batch by code: `2 NotFound, 1 InvalidArgument`.
fn by_code(results: &[Checked]) -> String {
    let mut counts: BTreeMap<i32, (Code, usize)> = BTreeMap::new();
    for fault in results.iter().filter_map(|result| result.as_ref().err()) {
        counts.entry(fault.code as i32).or_insert((fault.code, 0)).1 += 1;
    }
    let counts = counts.values();
    let counts: Vec<String> = counts
        .map(|(code, count)| format!("{count} {code:?}"))
        .collect();
    counts.join(", ")
}

/// Format of the errors of a batch.
struct Telling {
    /// Maximum length of a message in bytes.
    most: usize,
    /// True if only the first error of each kind has a message. Errors have no `space` then.
    of_each_kind: bool,
}

impl Telling {
    fn details(&self, results: &[Checked], message: &str) -> Vec<u8> {
        let mut kinds = BTreeSet::new();
        let mut detail = |result: &Checked| {
            let error = match result {
                Ok(()) => Error::default(),
                Err(fault) if !self.of_each_kind => fault.error(),
                Err(fault) => self.error(fault, &mut kinds),
            };
            prost_types::Any {
                type_url: "type.googleapis.com/p4.v1.Error".to_owned(),
                value: error.encode_to_vec(),
            }
        };
        let status = rpc::Status {
            code: Code::Unknown as i32,
            message: message.to_owned(),
            details: results.iter().map(&mut detail).collect(),
        };
        status.encode_to_vec()
    }

    fn error(&self, fault: &RequestError, kinds: &mut BTreeSet<(i32, String)>) -> Error {
        let is_new = kinds.insert((fault.code as i32, kind(&fault.message)));
        let message = match is_new && self.most > 0 {
            true => shortened(fault.message.clone(), self.most),
            false => String::new(),
        };
        Error {
            canonical_code: fault.code as i32,
            message,
            ..Error::default()
        }
    }
}

/// Returns the kind of an error: its message without hexadecimal digits and quoted names, which
/// differ between updates.
fn kind(message: &str) -> String {
    let mut kind = String::new();
    let mut is_quoted = false;
    for c in message.chars().take(256) {
        is_quoted ^= c == '`';
        if !is_quoted && !c.is_ascii_hexdigit() {
            kind.push(c);
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of a status in headers, as HTTP/2 counts it.
    fn in_headers(status: &Status) -> usize {
        let headers = status.clone().into_http::<()>().into_parts().0.headers;
        let lines = headers.iter();
        lines
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum()
    }

    fn details(status: &Status) -> Vec<Error> {
        let whole = rpc::Status::decode(status.details()).unwrap();
        let errors = whole.details.iter();
        errors
            .map(|any| Error::decode(&*any.value).unwrap())
            .collect()
    }

    #[test]
    fn a_status_fits_the_metadata_of_common_clients_whatever_its_text() {
        for text in [
            "a",
            "%",
            " ",
            "\u{1}",
            "\u{e4}",
            "\u{1f980}",
            "a%\u{1f980} ",
        ] {
            for times in [1, 100, 1000, 3000, 100_000] {
                let status = Status::from(RequestError::new(Code::Internal, text.repeat(times)));
                assert!(in_headers(&status) <= METADATA, "{text} {times}");
                assert_eq!(status.code(), Code::Internal);
                assert!(!status.message().is_empty());
            }
        }
    }

    #[test]
    fn a_batch_of_failures_fits_the_metadata_of_common_clients_whatever_its_size() {
        let refused = |at: usize| {
            let text = format!("update {at}: table `t{at}`: there is no entry {{ {at:x} }}");
            refuse::<()>(Code::NotFound, text)
        };
        for size in [1, 2, 30, 70, 90, 150, 400, 2000, 100_000] {
            let status = batch_status(&(0..size).map(refused).collect::<Vec<_>>()).unwrap_err();
            assert!(
                in_headers(&status) <= METADATA,
                "{size}: {}",
                in_headers(&status)
            );
            assert_eq!(status.code(), Code::Unknown);
            assert!(status.message().contains("t0"), "{}", status.message());
            let details = match status.details().is_empty() {
                true => Vec::new(),
                false => details(&status),
            };
            match size {
                ..=100 => assert_eq!(details.len(), size),
                _ => assert!(status.message().contains(&format!("{size} NotFound"))),
            }
            let is_not_found = |error: &Error| error.canonical_code == Code::NotFound as i32;
            assert!(details.iter().all(is_not_found));
        }
    }

    #[test]
    fn of_many_errors_the_first_of_each_kind_says_what_is_wrong() {
        let results: Vec<Checked> = (0..100)
            .map(|at| match at % 3 {
                0 => Ok(()),
                1 => refuse(
                    Code::NotFound,
                    format!("there is no entry {at}{}", " x".repeat(40)),
                ),
                _ => refuse(Code::AlreadyExists, format!("entry {at} is there already")),
            })
            .collect();
        let status = batch_status(&results).unwrap_err();
        let details = details(&status);
        assert_eq!(details.len(), results.len());
        let told = details.iter().filter(|error| !error.message.is_empty());
        let told: Vec<&str> = told.map(|error| error.message.as_str()).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains("entry 2 is there"), "{told:?}");
        assert!(
            status
                .message()
                .starts_with("66 of 100 failed (33 NotFound, 33 AlreadyExists)")
        );
    }

    #[test]
    fn a_long_message_of_few_errors_is_cut_and_their_codes_stay() {
        let long = refuse(Code::InvalidArgument, "x".repeat(1 << 20));
        let status = batch_status(&[long.clone(), Ok(()), long]).unwrap_err();
        assert!(in_headers(&status) <= METADATA);
        let codes: Vec<i32> = details(&status).iter().map(|e| e.canonical_code).collect();
        let invalid = Code::InvalidArgument as i32;
        assert_eq!(codes, [invalid, 0, invalid]);
    }
}
