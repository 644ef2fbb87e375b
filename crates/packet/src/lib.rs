//! The room `packet`: frames, batches, headroom; the memory that a packet lives in.
//!
//! - **In:** bytes as they were on a wire, with the port and the time of their arrival.
//! - **Out:** [`Frame`]s that can lose and gain bytes at the front without a copy, in reusable
//!   [`Batch`]es, from a [`FramePool`]; [`Nanos`], the one unit of time.
//! - **May import:** nothing.
//! - **Invariants:** a frame is at most [`MAX_FRAME`] bytes; its bytes are always inside its buffer;
//!   once warm, nothing here allocates, and each time that a buffer grows is counted.
//! - **Tests:** beside the code, in `frame.rs` against a `Vec<u8>` as the naive model.
#![deny(unsafe_code)]

mod batch;
mod frame;
mod pool;
mod time;

pub use batch::Batch;
pub use frame::{Frame, FrameError, HEADROOM, MAX_FRAME, PortId, USUAL_FRAME};
pub use pool::FramePool;
pub use time::Nanos;
