//! Access control: maps the names in a client's certificate to the permissions that the switch's
//! owner grants.

use std::fmt;
use std::str::FromStr;

use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Code;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::request_error::{Checked, RequestError, refuse};

/// A permission, written `NAME=ROLE`, `NAME=*` or `NAME`. NAME is a name in the client's
/// certificate; `*` means any client with a certificate.
///
/// `NAME=ROLE` lets the client be primary of that role and read for it. `NAME=*` does so for every
/// role, including the default role. `NAME` alone allows reading.
///
/// The last `=` separates the role. So a name may contain `=` (but not in the form `NAME` alone),
/// and a role may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    name: String,
    right: Right,
}

/// The right that a permission grants.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Right {
    Read,
    Role(String),
    AnyRole,
}

/// Error: a text is not a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowError;

impl fmt::Display for AllowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a permission is NAME=ROLE, NAME=* for any role, or NAME alone for reading")
    }
}

impl std::error::Error for AllowError {}

impl Allow {
    /// Grants everything to clients with this name, as `NAME=*` does.
    pub fn all(name: &str) -> Allow {
        Allow {
            name: name.to_owned(),
            right: Right::AnyRole,
        }
    }
}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Allow, AllowError> {
        // A name may contain `=`, as URIs do.
        let (name, right) = match text.rsplit_once('=') {
            None => (text, Right::Read),
            Some((_, "")) => return Err(AllowError),
            Some((name, "*")) => (name, Right::AnyRole),
            Some((name, role)) => (name, Right::Role(role.to_owned())),
        };
        if name.is_empty() {
            return Err(AllowError);
        }
        Ok(Allow {
            name: name.to_owned(),
            right,
        })
    }
}

/// The rights of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights(Vec<Right>);

impl Rights {
    /// Returns the rights to everything.
    pub(crate) fn all() -> Rights {
        Rights(vec![Right::AnyRole])
    }

    /// Checks that the client may be primary of a role, and write in it.
    pub(crate) fn check_role(&self, role: &str) -> Checked {
        if self.has_role(role) {
            return Ok(());
        }
        let role = match role {
            "" => "the default role".to_owned(),
            role => format!("the role `{role}`"),
        };
        refuse(
            Code::PermissionDenied,
            format!("this client's certificate is not allowed to control {role}"),
        )
    }

    /// Checks that the client may set a program as primary of a role. The program belongs to all
    /// roles, so the client also needs the default role. Verifying a program changes nothing and
    /// needs only the role itself.
    pub(crate) fn check_config(&self, role: &str, action: Action) -> Checked {
        self.check_role(role)?;
        match action {
            Action::Verify => Ok(()),
            _ => self
                .check_role("")
                .map_err(|fault| fault.within("the program is that of all roles")),
        }
    }

    /// Checks that the client may read for a role. Reading for the default role means reading
    /// everything.
    pub(crate) fn check_read(&self, role: &str) -> Checked {
        if self.0.contains(&Right::Read) {
            return Ok(());
        }
        self.check_role(role)
    }

    fn has_role(&self, role: &str) -> bool {
        let gives = |right: &Right| match right {
            Right::AnyRole => true,
            Right::Role(given) => given == role,
            Right::Read => false,
        };
        self.0.iter().any(gives)
    }
}

/// Identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Unknown: clients need no certificates.
    Anyone,
    /// The client has a verified certificate with these names.
    Named(Vec<String>),
}

impl Who {
    /// Returns the client with this certificate (DER).
    pub(crate) fn certified(certificate: Option<&[u8]>) -> Checked<Who> {
        match certificate {
            Some(certificate) => Ok(Who::Named(names(certificate)?)),
            None => refuse(
                Code::Unauthenticated,
                "this server wants a client certificate, and none was given",
            ),
        }
    }

    /// Returns the client's rights at a device, from the permissions for all devices and the
    /// device's own. If there are no permissions at all, every client may do everything.
    pub(crate) fn rights(&self, general: &[Allow], own: &[Allow]) -> Checked<Rights> {
        let names = match self {
            Who::Anyone => return Ok(Rights::all()),
            Who::Named(_) if general.is_empty() && own.is_empty() => return Ok(Rights::all()),
            Who::Named(names) => names,
        };
        let is_named = |allow: &&Allow| allow.name == "*" || names.contains(&allow.name);
        let allowed = general.iter().chain(own).filter(is_named);
        let rights: Vec<Right> = allowed.map(|allow| allow.right.clone()).collect();
        match rights.is_empty() {
            false => Ok(Rights(rights)),
            true => refuse(
                Code::PermissionDenied,
                format!(
                    "this client's certificate ({}) is not among those that are allowed",
                    match names.is_empty() {
                        true => "without a name".to_owned(),
                        false => names.join(", "),
                    }
                ),
            ),
        }
    }
}

/// Returns the names in a certificate: its subject alternative names, or its common name if it has
/// none (RFC 6125, section 6.4.4).
fn names(der: &[u8]) -> Checked<Vec<String>> {
    let unreadable = |_| {
        RequestError::new(
            Code::Unauthenticated,
            "the client certificate cannot be read",
        )
    };
    let certificate = Certificate::from_der(der).map_err(unreadable)?;
    let body = &certificate.tbs_certificate;
    let alternative = body.get::<SubjectAltName>().map_err(unreadable)?;
    if let Some((_, SubjectAltName(all))) = alternative {
        let text = |name: GeneralName| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
            GeneralName::Rfc822Name(name) => Some(name.as_str().to_owned()),
            GeneralName::UniformResourceIdentifier(name) => Some(name.as_str().to_owned()),
            _ => None,
        };
        return Ok(all.into_iter().filter_map(text).collect());
    }
    let parts = body.subject.0.iter().flat_map(|part| part.0.iter());
    let common = parts.filter(|part| part.oid == COMMON_NAME);
    let text = |value: &x509_cert::der::Any| {
        let utf8 = value.decode_as::<Utf8StringRef<'_>>().ok();
        let text = utf8.map(|text| text.as_str().to_owned());
        text.or_else(|| {
            let printable = value.decode_as::<PrintableStringRef<'_>>().ok()?;
            Some(printable.as_str().to_owned())
        })
    };
    Ok(common.filter_map(|part| text(&part.value)).collect())
}

/// id-at-commonName (RFC 5280, appendix A).
const COMMON_NAME: x509_cert::der::asn1::ObjectIdentifier =
    x509_cert::der::asn1::ObjectIdentifier::new_unwrap("2.5.4.3");

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[&str]) -> Vec<Allow> {
        let allow = |text: &&str| text.parse().expect("a permission");
        texts.iter().map(allow).collect()
    }

    #[test]
    fn permissions_are_for_reading_a_role_or_all() {
        let right = |text: &str| text.parse::<Allow>().map(|allow| allow.right);
        assert_eq!(right("carol"), Ok(Right::Read));
        assert_eq!(right("bob=fib"), Ok(Right::Role("fib".to_owned())));
        assert_eq!(right("alice=*"), Ok(Right::AnyRole));
        let uri: Allow = "spiffe://lab/switch?unit=7=fib".parse().expect("it is one");
        assert_eq!(uri.name, "spiffe://lab/switch?unit=7");
        assert_eq!(uri.right, Right::Role("fib".to_owned()));
        assert_eq!(right("uri:a=b=*"), Ok(Right::AnyRole));
        assert_eq!(right("bob="), Err(AllowError));
        assert_eq!(right("=fib"), Err(AllowError));
        assert_eq!(right(""), Err(AllowError));
    }

    #[test]
    fn rights_add_up_over_the_names_of_a_certificate() {
        let make = |cn: &str, alternative: &[&str]| {
            let names: Vec<String> = alternative.iter().map(ToString::to_string).collect();
            let mut params = rcgen::CertificateParams::new(names).expect("names");
            params.distinguished_name = rcgen::DistinguishedName::new();
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, cn);
            let key = rcgen::KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("a certificate")
        };
        let allowed = given(&["alice=fib", "alice", "ops=acl", "root=*"]);
        let of = |cn: &str, alternative: &[&str]| {
            let who = Who::certified(Some(make(cn, alternative).der()));
            who.and_then(|who| who.rights(&allowed, &[]))
        };
        let alice = of("alice", &[]).expect("she is named");
        assert_eq!(alice.check_role("fib"), Ok(()));
        assert_eq!(alice.check_read(""), Ok(()));
        let denied = Code::PermissionDenied;
        let code = |checked: Checked| checked.map_err(|fault| fault.code);
        assert_eq!(code(alice.check_role("")), Err(denied));
        let both = of("x", &["ops", "alice"]).expect("both are named");
        assert_eq!(both.check_role("acl").and(both.check_role("fib")), Ok(()));
        // The common name does not count if there are alternative names.
        let refused = of("root", &["ops2"]).map_err(|fault| fault.code);
        assert_eq!(refused, Err(denied));
        // The program belongs to all roles.
        let commit = Action::VerifyAndCommit;
        assert_eq!(alice.check_config("fib", Action::Verify), Ok(()));
        assert_eq!(code(alice.check_config("fib", commit)), Err(denied));
        assert_eq!(code(alice.check_config("", Action::Verify)), Err(denied));
        let root = of("root", &[]).expect("it is named");
        assert_eq!(root.check_config("fib", commit), Ok(()));
        assert_eq!(root.check_role("").and(root.check_read("acl")), Ok(()));
        let ops = of("ops", &[]).expect("it is named");
        assert_eq!(code(ops.check_read("")), Err(denied));
        assert_eq!(ops.check_read("acl"), Ok(()));
    }
}
