//! Crate `packet`: frames, batches and headroom, that is the memory of packets.
//!
//! - **In:** bytes as received, with the port and the time of their arrival.
//! - **Out:** [`Frame`]s that can lose and gain bytes at the front without a copy, in reusable
//!   [`Batch`]es, from a [`FramePool`]; [`Nanos`], the unit of time.
//! - **Invariants:** a frame has at most [`MAX_FRAME`] bytes, always inside its buffer. Once warm,
//!   no operation allocates, and each growth of a buffer is counted.
//! - **Tests:** in each module; `frame.rs` is tested against a `Vec<u8>` as the naive model.
#![deny(unsafe_code)]

mod batch;
mod frame;
mod hex;
mod pool;
mod time;

pub use batch::Batch;
pub use frame::{DEFAULT_FRAME, Frame, FrameError, HEADROOM, MAX_FRAME, PortId};
pub use hex::bytes_from_hex;
pub use pool::FramePool;
pub use time::Nanos;
