//! Controls: declarations, inlined code, and the architecture's blocks as lines of stages.

use ir::{BlockCode, Control};
use sema::hir::{self, LocalDecl};
use support::work::checkpoint;

use crate::cx::{Lower, Mode};
use crate::instance::NodeId;

impl Lower<'_> {
    /// Lowers the code of a control with bound parameters.
    pub(crate) fn run_control(&mut self, node: NodeId, id: hir::ControlId) {
        let hir = self.hir;
        let control = &hir.controls[id];
        // A control may run inside another instance of itself, passed as a constructor argument.
        // Its names have other meanings there.
        let outer = self.active.contains(&id).then(|| self.vars.clone());
        self.active.push(id);
        let bound = self.bind_ctor_params(node, &control.ctor_params);
        self.in_node(node, Mode::Control, |this| {
            for local in &control.locals {
                checkpoint();
                if let LocalDecl::Var(var, init) = local {
                    this.loc = this.loc_of(hir.vars[*var].name.span);
                    this.declare_var(*var, init.as_ref());
                }
            }
            let void = this.types.intern(hir::Ty::Void);
            this.inline_body(&control.body, void);
        });
        self.unbind(bound);
        self.active.pop();
        if let Some(outer) = outer {
            self.vars = outer;
        }
    }

    /// Lowers a control that is a block of the architecture. Its parameters are bound.
    pub(crate) fn block_control(&mut self, node: NodeId, id: hir::ControlId) -> BlockCode {
        let name = self.nodes[node].path.clone();
        self.loc = None;
        let (code, ()) = self.capture(|this| this.run_control(node, id));
        let stages = passes::sequence::sequence(&name, code);
        BlockCode::Control(self.out.controls.push(Control { name, stages }))
    }
}
