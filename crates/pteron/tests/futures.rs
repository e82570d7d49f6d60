//! Futures of the public API: they can be sent to other threads, and dropping one leaves the state consistent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::{gpu, program};
use pteron::{Gpu, GpuOptions, LoadOptions, Method, PendingCall, Program, State, StreamingMethod, Tensor, block_on};

/// Compiles only if a future is `Send`.
fn send<T: Send>(future: T) -> T {
    future
}

/// Never called: compiling is the test.
#[allow(dead_code, reason = "that it compiles is the test")]
fn futures_are_send(
    (gpu, program, method): (&Gpu, &Program, &Method),
    state: &mut State,
    (pending, streaming): (PendingCall, StreamingMethod),
) {
    let options = LoadOptions::default();
    drop(send(Gpu::open(&GpuOptions::default())));
    drop(send(gpu.wait_idle()));
    drop(send(gpu.lost()));
    drop(send(program.load(gpu, "forward", &options)));
    drop(send(program.load_streaming(gpu, "forward", &options)));
    drop(send(method.call(state, &[])));
    drop(send(method.call_profiled(state, &[])));
    drop(send(pending.wait()));
    drop(send(streaming.finish()));
}

#[test]
fn a_call_dropped_after_any_number_of_polls_leaves_the_state_usable() {
    let method = block_on(program().load(&gpu(), "forward", &LoadOptions::default())).unwrap();
    let inputs = |position| [Tensor::from_i64(&[1, 2], &[7, 3]).unwrap(), Tensor::from_i64(&[1], &[position]).unwrap()];
    let mut expected_state = method.new_state().unwrap();
    let expected = block_on(method.call(&mut expected_state, &inputs(0))).unwrap();
    for polls in 0.. {
        let mut state = method.new_state().unwrap();
        let done = {
            let given = inputs(0);
            let mut call = pin!(method.call(&mut state, &given));
            let mut context = Context::from_waker(Waker::noop());
            (0..polls).any(|_| matches!(call.as_mut().poll(&mut context), Poll::Ready(_)))
        };
        assert_eq!(block_on(method.call(&mut state, &inputs(0))).unwrap(), expected, "after {polls} polls");
        if done {
            break;
        }
    }
}
