//! The tree of a template. Chains of operators, branches and filters are flat lists, so that a long template makes
//! no deep tree: only what is nested in the source nests here, up to the parser's limit.

/// A parsed template. Macros and loops are in lists of their own, so that values can refer to them by number.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub body: Vec<Node>,
    pub macros: Vec<Macro>,
    pub loops: Vec<For>,
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Node {
    pub line: u32,
    pub statement: Statement,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Text(String),
    Print(Expr),
    If {
        branches: Vec<(Expr, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    /// The number of the loop in [`Program::loops`].
    For(usize),
    Set {
        target: Target,
        value: Expr,
    },
    /// `{% set x | filter %}...{% endset %}`.
    SetBlock {
        target: Target,
        filters: Vec<Filter>,
        body: Vec<Node>,
    },
    /// The number of the macro in [`Program::macros`].
    Macro(usize),
    /// `{% call(arguments) f() %}...{% endcall %}`: the body as a macro, and the call that it is given to.
    CallBlock {
        caller: usize,
        callee: Expr,
        arguments: Arguments,
    },
    FilterBlock {
        filters: Vec<Filter>,
        body: Vec<Node>,
    },
    With {
        values: Vec<(Target, Expr)>,
        body: Vec<Node>,
    },
    /// `{% generation %}`: its text is that of its body, in a scope of its own.
    Scope(Vec<Node>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For {
    pub target: Target,
    pub items: Expr,
    pub filter: Option<Expr>,
    pub body: Vec<Node>,
    pub otherwise: Vec<Node>,
    pub recursive: bool,
    /// Whether the body mentions `loop`. Without it, the filter is asked as the loop goes on.
    pub uses_loop: bool,
}

#[derive(Debug)]
pub(crate) struct Macro {
    pub name: String,
    pub parameters: Vec<(String, Option<Expr>)>,
    pub body: Vec<Node>,
    /// Which of the implicit variables the body mentions: only those are accepted in a call.
    pub uses_varargs: bool,
    pub uses_kwargs: bool,
    pub uses_caller: bool,
}

#[derive(Debug)]
pub(crate) enum Target {
    Name(String),
    /// `namespace.attribute`.
    Attribute(String, String),
    Tuple(Vec<Target>),
}

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub positional: Vec<Expr>,
    pub named: Vec<(String, Expr)>,
    pub sequence: Option<Box<Expr>>,
    pub mapping: Option<Box<Expr>>,
}

/// A filter or a test, by name.
#[derive(Debug)]
pub(crate) struct Filter {
    pub name: String,
    pub arguments: Arguments,
}

#[derive(Debug)]
pub(crate) enum Expr {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// A value and what is done with it, one after the other.
    Postfix(Box<Expr>, Vec<Postfix>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    /// `a + b - c`, from the left; all operators have the same precedence.
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),
    Concat(Vec<Expr>),
    /// `a < b <= c`: each neighbouring pair is compared.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
}

#[derive(Debug)]
pub(crate) enum Postfix {
    Attribute(String),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    Filter(Filter),
    Test { test: Filter, negated: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}
