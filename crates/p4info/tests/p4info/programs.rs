//! Small programs built by hand, for the tests.

use ir::*;

/// Returns an empty program.
pub(crate) fn empty(arch: Arch) -> Program {
    Program {
        name: "t".into(),
        arch,
        files: vec![],
        errors: vec!["NoError".into(), "NoMatch".into()],
        enums: Default::default(),
        header_types: Default::default(),
        fields: Default::default(),
        headers: Default::default(),
        stacks: Default::default(),
        parsers: Default::default(),
        controls: Default::default(),
        actions: Default::default(),
        tables: Default::default(),
        value_sets: Default::default(),
        externs: Default::default(),
        pipeline: Default::default(),
        named_types: vec![],
        annotations: vec![],
        constants: vec![],
    }
}

/// Returns `@name`, or `@name(text)`.
pub(crate) fn note(name: &str, text: &str) -> Annotation {
    let body = match text {
        "" => AnnotationBody::None,
        text => AnnotationBody::Text(text.into()),
    };
    Annotation {
        name: name.into(),
        body,
    }
}

/// Returns a parameter of an action.
pub(crate) fn param(name: &str, data_ty: DataTy) -> ActionParam {
    ActionParam {
        name: name.into(),
        ty: ScalarTy::Bit(9),
        data_ty,
        annotations: vec![],
    }
}

/// Adds an action.
pub(crate) fn action(program: &mut Program, name: &str, params: Vec<ActionParam>) -> ActionId {
    program.actions.push(Action {
        name: format!("{name}.{}", program.actions.len()),
        control_plane_name: name.into(),
        params,
        body: vec![],
        annotations: vec![],
        loc: None,
    })
}

/// Returns a key that matches on a constant.
pub(crate) fn key(name: &str, match_kind: MatchKind, data_ty: DataTy) -> Key {
    Key {
        name: name.into(),
        expr: Expr::Const(ScalarTy::Bit(1), bits::Value::zero(1)),
        match_kind,
        data_ty,
        annotations: vec![],
    }
}

/// Returns a table. Its default action is the last of its actions, without arguments.
pub(crate) fn table(name: &str, keys: Vec<Key>, actions: &[ActionId]) -> Table {
    let listed = actions.iter().map(|action| TableAction {
        action: *action,
        scope: ActionScope::TableAndDefault,
        annotations: vec![],
    });
    Table {
        name: name.into(),
        keys,
        actions: listed.collect(),
        default: ActionCall {
            action: actions.len() - 1,
            args: vec![],
        },
        default_is_const: false,
        entries: vec![],
        entries_are_const: false,
        largest_priority_wins: true,
        size: 1024,
        size_is_declared: false,
        implementation: None,
        direct_counter: None,
        direct_meter: None,
        idle_timeout: false,
        add_on_miss: false,
        mirror: None,
        annotations: vec![],
        loc: None,
    }
}

/// Adds an extern instance.
pub(crate) fn instance(
    program: &mut Program,
    name: &str,
    kind: ExternKind,
    annotations: Vec<Annotation>,
) -> ExternId {
    program.externs.push(Extern {
        name: name.into(),
        kind,
        annotations,
        loc: None,
    })
}

/// Declares a type.
pub(crate) fn declare(program: &mut Program, name: &str, kind: NamedTypeKind) -> DataTy {
    program.named_types.push(NamedType {
        name: name.into(),
        kind,
        annotations: vec![],
    });
    DataTy::Named(name.into())
}
