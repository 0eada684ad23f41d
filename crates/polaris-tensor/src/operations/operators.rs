//! `+`, `-`, `*`, `/` and unary `-` on references. They can fail as their methods can, and give a
//! `Result`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::{Result, Tensor};

macro_rules! operator {
    ($($trait:ident $method:ident $scalar:ident),*) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Result<Tensor>;

            fn $method(self, other: &Tensor) -> Result<Tensor> {
                Tensor::$method(self, other)
            }
        }

        impl $trait<f64> for &Tensor {
            type Output = Result<Tensor>;

            fn $method(self, value: f64) -> Result<Tensor> {
                self.$scalar(value)
            }
        }
    )*};
}

operator!(Add add add_scalar, Sub sub sub_scalar, Mul mul mul_scalar, Div div div_scalar);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}
