//! Extern functions of PNA.

use ir::{BinOp, Expr, Op, Operand, ScalarTy};
use passes::fold;
use sema::hir::TyId;
use support::work::checkpoint;

use super::Args;
use crate::cx::{Lower, bits_const};
use crate::value::Rv;

impl Lower<'_> {
    pub(super) fn pna_function(&mut self, name: &str, args: &Args, ty: TyId) -> Option<Rv> {
        let arg = |this: &mut Self, index: usize| Operand::In(args.scalar(this, index));
        match (name, args.values.len()) {
            ("drop_packet", 0) => self.emit_op(Op::DropPacket, None, Vec::new()),
            ("send_to_port", 1) => {
                let port = arg(self, 0);
                self.emit_op(Op::SendToPort, None, vec![port]);
            }
            ("mirror_packet", 2) => {
                let operands = vec![arg(self, 0), arg(self, 1)];
                self.emit_op(Op::MirrorPacket, None, operands);
            }
            ("recirculate", 0) => self.emit_op(Op::RecirculatePacket, None, Vec::new()),
            ("set_entry_expire_time", 1) => {
                let profile = arg(self, 0);
                self.emit_op(Op::SetEntryExpireTime, None, vec![profile]);
            }
            ("restart_expire_timer", 0) => self.emit_op(Op::RestartExpireTimer, None, Vec::new()),
            ("set_entry_expire_time_if", 2) => {
                let cond = args.scalar(self, 0);
                self.expire_if(cond, args, 1);
            }
            ("update_expire_info", 3) => {
                let restart = args.scalar(self, 0);
                let (code, ()) =
                    self.capture(|this| this.emit_op(Op::RestartExpireTimer, None, Vec::new()));
                self.emit_if(restart, code, Vec::new());
                let cond = args.scalar(self, 1);
                self.expire_if(cond, args, 2);
            }
            ("allocate_flow_id", 0) => {
                return Some(self.op_value(Op::AllocateFlowId, None, Vec::new(), ty));
            }
            ("is_host_port" | "is_net_port", 1) => {
                let op = if name == "is_host_port" {
                    Op::IsHostPort
                } else {
                    Op::IsNetPort
                };
                let port = arg(self, 0);
                return Some(self.op_value(op, None, vec![port], ty));
            }
            ("SelectByDirection", 3) => return Some(self.select_by_direction(args, ty)),
            ("add_entry", 3) => return self.add_entry(args, 0, ty),
            ("add_entry_if", 4) => return self.add_entry_if(args, ty),
            _ => return None,
        }
        Some(Rv::Default)
    }

    fn expire_if(&mut self, cond: Expr, args: &Args, profile: usize) {
        let (code, ()) = self.capture(|this| {
            let profile = Operand::In(args.scalar(this, profile));
            this.emit_op(Op::SetEntryExpireTime, None, vec![profile]);
        });
        self.emit_if(cond, code, Vec::new());
    }

    /// Selects the first value for packets from the network (`NET_TO_HOST`, or `true`), the second
    /// for those from the host.
    fn select_by_direction(&mut self, args: &Args, ty: TyId) -> Rv {
        let direction = args.scalar(self, 0);
        let from_net = match self.expr_ty(&direction) {
            ScalarTy::Bool => direction,
            other => {
                let first = Expr::Const(other, bits::Value::zero(other.width()));
                Expr::Binary(BinOp::Eq, Box::new(direction), Box::new(first))
            }
        };
        let (net, host) = (args.value(self, 1), args.value(self, 2));
        let result = self.temp(ty);
        let (then, ()) = self.capture(|this| this.assign(&result, &net, ty));
        let (otherwise, ()) = self.capture(|this| this.assign(&result, &host, ty));
        self.emit_if(from_net, then, otherwise);
        self.load(&result)
    }

    fn add_entry_if(&mut self, args: &Args, ty: TyId) -> Option<Rv> {
        let cond = args.scalar(self, 0);
        let result = self.temp(ty);
        let scalar = self.scalar(ty)?;
        // `ADD_ENTRY_NOT_DONE` is 1. As a `bool`, `false` says that nothing was added.
        let not_done = match scalar {
            ScalarTy::Bool => fold::bool_const(false),
            other => Expr::Const(other, bits::Value::truncated(1, other.width())),
        };
        let (then, added) = self.capture(|this| {
            let added = this.add_entry(args, 1, ty)?;
            this.assign(&result, &added, ty);
            Some(())
        });
        added?;
        let (otherwise, ()) = self.capture(|this| this.assign(&result, &Rv::Scalar(not_done), ty));
        self.emit_if(cond, then, otherwise);
        Some(self.load(&result))
    }

    /// Lowers `add_entry`. The action is one of the table with the miss that runs this code.
    fn add_entry(&mut self, args: &Args, first: usize, ty: TyId) -> Option<Rv> {
        let Rv::Str(name) = args.value(self, first) else {
            return Some(self.unsupported(args.span, "the action's name must be a string"));
        };
        let Some(at) = &mut self.in_table else {
            return Some(self.unsupported(
                args.span,
                "`add_entry` can only be called in the action that runs on a table's miss",
            ));
        };
        at.used = true;
        if !at.add_on_miss {
            let message = "`add_entry` adds to the table that runs this, which is not declared `add_on_miss = true`";
            return Some(self.unsupported(args.span, message));
        }
        let hir = self.hir;
        let table = at.table;
        let actions = &hir.tables[table].actions;
        let position = actions
            .iter()
            .position(|action| hir.actions[action.action].name.as_str() == &*name);
        let Some(position) = position else {
            return Some(self.unsupported(args.span, format!("the table has no action `{name}`")));
        };
        let data = self.action_data(args, first + 1, actions[position].action);
        let wanted = self.data_types(actions[position].action);
        if data.iter().map(|value| self.expr_ty(value)).ne(wanted) {
            let message = format!("these are not the parameters of action `{name}`");
            return Some(self.unsupported(args.span, message));
        }
        let profile = Operand::In(args.scalar(self, first + 2));
        let status = self.temp_field(ScalarTy::Bit(1));
        let operands = vec![
            Operand::Number(position as u64),
            profile,
            Operand::Data(data),
            Operand::Out(status.into()),
        ];
        self.emit_op(Op::AddEntry, None, operands);
        let status = Expr::Read(status.into());
        Some(Rv::Scalar(match self.scalar(ty) {
            Some(ScalarTy::Bool) => {
                Expr::Binary(BinOp::Eq, Box::new(status), Box::new(bits_const(0, 1)))
            }
            _ => status,
        }))
    }

    /// Returns the action's parameters from a struct by name, or by position if the names differ.
    fn action_data(&mut self, args: &Args, index: usize, action: sema::hir::ActionId) -> Vec<Expr> {
        let value = args.value(self, index);
        let Some(ty) = args.ty(index) else {
            return Vec::new();
        };
        let hir = self.hir;
        let params: Vec<&str> = hir.actions[action]
            .params
            .iter()
            .map(|param| &hir.vars[param.var])
            .filter(|var| var.kind == sema::hir::VarKind::Param(syntax::ast::Direction::None))
            .map(|var| var.name.as_str())
            .collect();
        let members = self.members(ty);
        let by_name: Option<Vec<usize>> = params
            .iter()
            .map(|param| members.iter().position(|(name, _)| &**name == *param))
            .collect();
        match by_name {
            Some(order) if members.len() == params.len() => {
                let mut data = Vec::new();
                for index in order {
                    checkpoint();
                    let part = self.part(&value, ty, index);
                    data.extend(self.flatten(&part, members[index].1, false));
                }
                data
            }
            _ => self.flatten(&value, ty, false),
        }
    }

    /// Returns the scalar types of an action's data, from the control plane or from a packet that
    /// adds an entry.
    fn data_types(&mut self, action: sema::hir::ActionId) -> Vec<ScalarTy> {
        let hir = self.hir;
        let vars = hir.actions[action]
            .params
            .iter()
            .map(|param| &hir.vars[param.var]);
        let data =
            vars.filter(|var| var.kind == sema::hir::VarKind::Param(syntax::ast::Direction::None));
        data.flat_map(|var| self.flat_types(var.ty)).collect()
    }
}
