//! The engines that every test runs on.

use std::sync::Arc;

use exec::Engine;

use crate::Stepwise;

/// Returns all engines. The first one is the reference.
pub fn engines() -> Vec<Arc<dyn Engine>> {
    vec![
        Arc::new(interp::Interp),
        Arc::new(Stepwise(interp::Interp)),
        Arc::new(jit()),
        Arc::new(Stepwise(jit())),
    ]
}

/// Returns the engine for native code. It traces with the interpreter.
fn jit() -> jit::Jit {
    jit::Jit::new(Arc::new(interp::Interp))
}
