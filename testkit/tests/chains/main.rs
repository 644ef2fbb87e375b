//! Tests of chains of programs: compared with the programs alone, and between their forms.

mod alone;
mod forms;
