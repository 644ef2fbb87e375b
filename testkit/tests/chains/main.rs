//! Chains of programs: what they do against what the programs do alone, and one form against the other.

mod alone;
mod forms;
