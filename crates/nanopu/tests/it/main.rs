//! Tests of the model: programs of the examples, small programs made here, and random input.

mod assembler;
mod devices;
mod faults;
mod floats;
mod images;
mod load;
mod network;
mod polling;
mod queues;
mod timer;
mod timing;
