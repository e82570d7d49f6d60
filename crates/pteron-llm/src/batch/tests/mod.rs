//! The scheduler against a simulated model: batched = alone.

mod harness;
mod model;
mod order;
mod prefix;
mod random;
