//! The tree of instances: evaluates constructor calls from `main` down, and their control-plane
//! names.

use std::collections::HashMap;

use bits::define_id;
use sema::hir::{self, Arg, ExprKind, InstanceId, LocalDecl, Ty, TyId};
use support::work::checkpoint;

use crate::annotate;
use crate::cx::{Bound, Lower};
use crate::value::Rv;

define_id! {
    /// A node of the instance tree.
    pub(crate) struct NodeId;
}

/// An instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceNode {
    /// Its control-plane name. Empty for the root.
    pub(crate) path: String,
    /// The declaration; the root has none.
    pub(crate) instance: Option<InstanceId>,
    /// Its type, closed.
    pub(crate) ty: Option<TyId>,
    /// Its constructor arguments.
    pub(crate) args: Vec<Rv>,
    pub(crate) parent: Option<NodeId>,
    pub(crate) children: HashMap<InstanceId, NodeId>,
    /// Its extern in the IR.
    pub(crate) ir: Option<ir::ExternId>,
    /// Number of applications, counted up to 3.
    pub(crate) applied: u8,
    /// Storage of its parameters, if it is applied more than once.
    pub(crate) own_params: HashMap<hir::VarId, crate::storage::Place>,
}

impl Lower<'_> {
    pub(crate) fn root_node() -> InstanceNode {
        InstanceNode {
            path: String::new(),
            instance: None,
            ty: None,
            args: Vec::new(),
            parent: None,
            children: HashMap::new(),
            ir: None,
            applied: 1,
            own_params: HashMap::new(),
        }
    }

    /// Returns the node of an instance in code: a child of the current node or of one around it, or
    /// a global.
    pub(crate) fn node_of(&mut self, instance: InstanceId) -> NodeId {
        let mut at = Some(self.node);
        while let Some(node) = at {
            checkpoint();
            if let Some(&child) = self.nodes[node].children.get(&instance) {
                return child;
            }
            at = self.nodes[node].parent;
        }
        if let Some(&global) = self.globals.get(&instance) {
            return global;
        }
        if self.hir.globals.contains(&instance) {
            let name = self.instance_name(instance);
            let node = self.instantiate(instance, NodeId::new(0), name);
            self.globals.insert(instance, node);
            return node;
        }
        // A direct application, or a constructor call as an argument or property.
        let path = self.child_path(self.node, instance);
        self.instantiate(instance, self.node, path)
    }

    fn instance_name(&self, instance: InstanceId) -> String {
        let decl = &self.hir.instances[instance];
        let name =
            annotate::name(&decl.annotations).unwrap_or_else(|| decl.name.as_str().to_owned());
        name.strip_prefix('.').map(str::to_owned).unwrap_or(name)
    }

    /// Returns the control-plane name of a declaration in a node. `.name` is absolute.
    pub(crate) fn path_in(
        &self,
        node: NodeId,
        name: &str,
        annotations: &[hir::Annotation],
    ) -> String {
        let name = annotate::name(annotations).unwrap_or_else(|| name.to_owned());
        if let Some(absolute) = name.strip_prefix('.') {
            return absolute.to_owned();
        }
        let path = &self.nodes[node].path;
        if path.is_empty() {
            name
        } else {
            format!("{path}.{name}")
        }
    }

    fn child_path(&self, node: NodeId, instance: InstanceId) -> String {
        let decl = &self.hir.instances[instance];
        self.path_in(node, decl.name.as_str(), &decl.annotations)
    }

    /// Creates an instance with all instances inside it.
    pub(crate) fn instantiate(
        &mut self,
        instance: InstanceId,
        parent: NodeId,
        path: String,
    ) -> NodeId {
        let span = self.hir.instances[instance].span;
        // If a limit is exceeded, the root replaces instances that are not created any more.
        self.deeper(span, NodeId::new(0), |this| {
            this.make_instance(instance, parent, path)
        })
    }

    fn make_instance(&mut self, instance: InstanceId, parent: NodeId, path: String) -> NodeId {
        let decl = &self.hir.instances[instance];
        let outer = std::mem::replace(&mut self.node, parent);
        let ty = self.subst(decl.ty);
        let is_package = matches!(self.ty(ty), Ty::BlockType(..));
        let args = decl
            .args
            .iter()
            .map(|arg| self.constant_arg(arg, is_package))
            .collect();
        let node = self.nodes.push(InstanceNode {
            path,
            instance: Some(instance),
            ty: Some(ty),
            args,
            parent: Some(parent),
            applied: 0,
            ..Self::root_node()
        });
        if parent.get() != 0 || !self.hir.globals.contains(&instance) {
            self.nodes[parent].children.insert(instance, node);
        } else {
            self.globals.insert(instance, node);
        }
        self.node = node;
        let hir = self.hir;
        match *self.ty(ty) {
            Ty::Parser(id) => {
                self.instantiate_locals(node, &hir.parsers[id].ctor_params, &hir.parsers[id].locals)
            }
            Ty::Control(id) => self.instantiate_locals(
                node,
                &hir.controls[id].ctor_params,
                &hir.controls[id].locals,
            ),
            Ty::Extern(id, _) => {
                self.instantiate_all(node, &decl.inner);
                self.declare_extern(node, id);
            }
            _ => {}
        }
        self.node = outer;
        node
    }

    fn instantiate_locals(&mut self, node: NodeId, params: &[hir::Param], locals: &[LocalDecl]) {
        let bound = self.bind_ctor_params(node, params);
        let instances: Vec<_> = locals
            .iter()
            .filter_map(|local| match local {
                LocalDecl::Instance(instance) => Some(*instance),
                _ => None,
            })
            .collect();
        self.instantiate_all(node, &instances);
        self.unbind(bound);
    }

    fn instantiate_all(&mut self, node: NodeId, instances: &[InstanceId]) {
        for &instance in instances {
            checkpoint();
            let path = self.child_path(node, instance);
            self.instantiate(instance, node, path);
        }
    }

    /// Binds the constructor parameters to the node's arguments. Returns the previous bindings.
    pub(crate) fn bind_ctor_params(
        &mut self,
        node: NodeId,
        params: &[hir::Param],
    ) -> Vec<(hir::VarId, Option<Bound>)> {
        let args = self.nodes[node].args.clone();
        let mut bound = Vec::new();
        for (param, arg) in params.iter().zip(args) {
            checkpoint();
            bound.push((param.var, self.vars.insert(param.var, Bound::Value(arg))));
        }
        bound
    }

    pub(crate) fn unbind(&mut self, bound: Vec<(hir::VarId, Option<Bound>)>) {
        for (var, before) in bound.into_iter().rev() {
            checkpoint();
            match before {
                Some(before) => self.vars.insert(var, before),
                None => self.vars.remove(&var),
            };
        }
    }

    /// Returns the name of an architecture's block: that of its declaration, as in p4c. The
    /// instance's name and annotations are ignored.
    fn block_path(&mut self, instance: InstanceId) -> Option<String> {
        let hir = self.hir;
        let name = match *self.ty(hir.instances[instance].ty) {
            Ty::Parser(id) => hir.parsers[id].name.as_str(),
            Ty::Control(id) => hir.controls[id].name.as_str(),
            _ => return None,
        };
        let name = name.to_owned();
        let taken = |path: &str| self.nodes.values().any(|node| node.path == path);
        let mut path = name.clone();
        let mut count = 1;
        while taken(&path) {
            checkpoint();
            count += 1;
            path = format!("{name}${count}");
        }
        Some(path)
    }

    fn constant_arg(&mut self, arg: &Arg, in_package: bool) -> Rv {
        match arg {
            Arg::Omitted => Rv::Omitted,
            Arg::Expr(hir::Expr {
                kind: ExprKind::Instance(instance),
                ..
            }) if in_package && !self.globals.contains_key(instance) => {
                match self.block_path(*instance) {
                    Some(path) => {
                        let parent = if self.hir.globals.contains(instance) {
                            NodeId::new(0)
                        } else {
                            self.node
                        };
                        Rv::Instance(self.instantiate(*instance, parent, path))
                    }
                    None => Rv::Instance(self.node_of(*instance)),
                }
            }
            Arg::Expr(expr) => {
                let (code, value) = self.capture(|this| this.value(expr));
                if !code.is_empty() {
                    return self.unsupported(
                        expr.span,
                        "a constructor argument must be known when the program is compiled",
                    );
                }
                value
            }
        }
    }

    /// Counts the applications of each instance, from a block of the architecture down.
    pub(crate) fn count_applications(&mut self, node: NodeId) {
        let applied = self.nodes[node].applied.saturating_add(1).min(3);
        self.nodes[node].applied = applied;
        let Some(ty) = self.nodes[node].ty else {
            return;
        };
        if applied > 2 {
            return;
        }
        let hir = self.hir;
        let outer = std::mem::replace(&mut self.node, node);
        let mut callees = Vec::new();
        let params = match *self.ty(ty) {
            Ty::Parser(id) => {
                for state in hir.parsers[id].states.values() {
                    checkpoint();
                    applied_in(&state.body, &mut callees);
                }
                &hir.parsers[id].ctor_params
            }
            Ty::Control(id) => {
                applied_in(&hir.controls[id].body, &mut callees);
                &hir.controls[id].ctor_params
            }
            _ => return self.node = outer,
        };
        let bound = self.bind_ctor_params(node, params);
        for callee in callees {
            checkpoint();
            if let (_, Rv::Instance(child)) = self.capture(|this| this.value(callee)) {
                self.count_applications(child);
            }
        }
        self.unbind(bound);
        self.node = outer;
    }
}

/// Collects the parsers and controls that code applies.
fn applied_in<'p>(body: &'p [hir::Stmt], found: &mut Vec<&'p hir::Expr>) {
    for stmt in body {
        checkpoint();
        match &stmt.kind {
            hir::StmtKind::Call(call, _) => {
                if let hir::Callee::Apply(object) = &call.callee {
                    found.push(object);
                }
            }
            hir::StmtKind::If(_, then, otherwise) => {
                applied_in(then, found);
                applied_in(otherwise, found);
            }
            hir::StmtKind::Block(body, _) => applied_in(body, found),
            hir::StmtKind::SwitchAction { cases, .. } => {
                cases.iter().for_each(|case| applied_in(&case.body, found))
            }
            hir::StmtKind::SwitchValue { cases, .. } => {
                cases.iter().for_each(|case| applied_in(&case.body, found))
            }
            hir::StmtKind::For {
                init, update, body, ..
            } => {
                applied_in(init, found);
                applied_in(update, found);
                applied_in(body, found);
            }
            hir::StmtKind::ForIn { body, .. } => applied_in(body, found),
            _ => {}
        }
    }
}

/// Returns the instance that an expression names, if there is one.
pub(crate) fn instance_in(expr: &hir::Expr) -> Option<InstanceId> {
    match expr.kind {
        ExprKind::Instance(instance) => Some(instance),
        _ => None,
    }
}
