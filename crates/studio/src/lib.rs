//! Crate `studio`: the web page on which a program is written, sent packets, and seen at work.
//!
//! **In:** an address of the loopback interface, and requests of a browser: programs, entries and
//! packets as text. **Out:** the page, and JSON: diagnostics, headers and tables of a program, and
//! the trace of each packet. **May import:** `driver`, `apply_entries`, `entries`, `interp`,
//! `trace_format`, `switch`, `exec`, `port`, `packet`, `syntax`, `ir`, `support`.
//!
//! [`playground`] answers requests as values, without network. `server` has the endpoints, and
//! `guard` refuses what does not come from the page itself. The page's sources are in `studio/web`;
//! `assets` has the built files, which are embedded, so that a build needs no Node.
//!
//! Invariants:
//! - A request changes nothing on the machine: no file is read or written, and programs include the
//!   built-in files alone.
//! - Each request has limits of bytes, time, memory and packets.
//! - Requests of other sites' pages are refused, and the page loads nothing from other hosts.
//!
//! Tests: `tests/` (requests as values, and a server on the loopback interface), and `cargo xtask
//! browser` (the page in Chromium).

mod assets;
mod examples;
mod guard;
pub mod playground;
mod program_view;
mod server;

pub use server::{Start, StudioError, serve};
