//! Reductions.

mod along;
mod arg;
mod cumulate;
mod fold;
mod softmax;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("ArgMax", arg::arg_max),
    ("ArgMin", arg::arg_min),
    ("CumProd", cumulate::cum_prod),
    ("CumSum", cumulate::cum_sum),
    ("Hardmax", softmax::hardmax),
    ("LogSoftmax", softmax::log_softmax),
    ("ReduceL1", fold::l1),
    ("ReduceL2", fold::l2),
    ("ReduceLogSum", fold::log_sum),
    ("ReduceLogSumExp", fold::log_sum_exp),
    ("ReduceMax", fold::max),
    ("ReduceMean", fold::mean),
    ("ReduceMin", fold::min),
    ("ReduceProd", fold::prod),
    ("ReduceSum", fold::sum),
    ("ReduceSumSquare", fold::sum_square),
    ("Softmax", softmax::softmax),
];
