//! Who competes in a case: our own product in its variants, and other libraries'.

use std::time::Duration;

use anyhow::Context;
use polaris::DeviceRef;
use polaris::ops::elementwise::Elementwise;
use polaris::ops::matmul::{Activation, Bias, Epilogue, Kernel, VARIANTS};
use polaris::ops::{
    Array, Binary, MatMul, Operation, Unary, fill, run as run_operation, run_kernel, usable_kernels,
};
use polaris::runtime::DeviceKind;
use polaris_peers::Product;

use super::cases::{Case, VariantChoice};
use super::measure::Contender;
use super::operands::{Operands, bytes_of};

/// Our helper threads look for work for a while before they sleep.
const OUR_THREADS_SETTLE_IN: Duration = Duration::from_micros(100);

/// A product of our own.
pub struct Ours<'a> {
    device: &'a DeviceRef,
    op: MatMul,
    /// A kernel, or the one that is chosen.
    kernel: Option<Kernel>,
    inputs: Vec<&'a Array>,
    out: &'a Array,
    /// What follows as operations of its own, in place.
    then: Vec<(Elementwise, Option<&'a Array>)>,
}

impl<'a> Ours<'a> {
    /// A product by the kernel that is chosen for it.
    pub fn plain(device: &'a DeviceRef, op: MatMul, inputs: &[&'a Array], out: &'a Array) -> Self {
        Self { device, op, kernel: None, inputs: inputs.to_vec(), out, then: Vec::new() }
    }
}

impl Contender for Ours<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        match self.kernel {
            Some(kernel) => run_kernel(&self.op, kernel, &self.inputs, self.out)?,
            None => run_operation(&self.op, &self.inputs, self.out)?,
        }
        for (op, operand) in &self.then {
            let inputs: Vec<&Array> = [self.out].into_iter().chain(*operand).collect();
            run_operation(op, &inputs, self.out)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if self.device.info().kind == DeviceKind::Cpu {
            return Ok(self.device.queue().finish()?);
        }
        // Other libraries spin while they wait for a GPU; a wait that sleeps would add its delay
        // to our times alone.
        let event = self.device.queue().record()?;
        while !event.is_complete()? {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn result(&mut self) -> anyhow::Result<Vec<u8>> {
        bytes_of(self.out)
    }

    fn settles_in(&self) -> Duration {
        OUR_THREADS_SETTLE_IN
    }
}

/// What a contender is called.
pub struct Named<'a> {
    pub variant: String,
    /// The kernel behind it, if a device has several.
    pub kernel: Option<String>,
    /// Whether it does more than the product.
    pub with_epilogue: bool,
    /// Whether it is left out if it is too slow to be worth the time.
    pub optional: bool,
    pub contender: Ours<'a>,
}

/// The variants of the plain product that are asked for and work; notes say which do not.
pub fn variants<'a>(
    case: &Case,
    device: &'a DeviceRef,
    operands: &'a Operands,
    choices: &[VariantChoice],
    note: &mut dyn FnMut(String),
) -> Vec<Named<'a>> {
    let op = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
    let inputs = [&operands.a, &operands.b];
    let ours = |kernel| Ours { kernel, ..Ours::plain(device, op, &inputs, &operands.out) };
    let default = || Named {
        variant: "default".to_owned(),
        kernel: chosen_kernel(&op, &inputs, &operands.out),
        with_epilogue: false,
        optional: false,
        contender: ours(None),
    };
    let Some(opencl) = device.as_opencl() else {
        if choices.iter().all(|choice| matches!(choice, VariantChoice::Named(_))) {
            note(format!("{} has no variants; its one product is measured", device.id()));
        }
        return vec![default()];
    };
    let mut named: Vec<Named<'a>> = Vec::new();
    for choice in choices {
        let (variants, all) = match choice {
            VariantChoice::Default => {
                named.push(default());
                continue;
            }
            VariantChoice::All => {
                named.push(default());
                (VARIANTS, true)
            }
            VariantChoice::Named(variant) => (std::slice::from_ref(*variant), false),
        };
        for variant in variants {
            if op.supports(variant.kernel, opencl, &inputs, &operands.out) {
                named.push(Named {
                    variant: variant.name.to_owned(),
                    kernel: Some(op.kernel_name(variant.kernel, &inputs, &operands.out)),
                    with_epilogue: false,
                    optional: all,
                    contender: ours(Some(variant.kernel)),
                });
            } else if !all {
                note(format!(
                    "{}: the variant {} does not work for {} {} and is left out",
                    device.id(),
                    variant.name,
                    case.numbers.name(),
                    case.dims
                ));
            }
        }
    }
    // `default,all` names some twice.
    let mut seen = Vec::new();
    named.retain(|one| {
        let is_new = !seen.contains(&one.variant);
        seen.push(one.variant.clone());
        is_new
    });
    named
}

/// A bias and GELU: fused into the product, and as operations of their own.
pub fn bias_gelu<'a>(
    case: &Case,
    device: &'a DeviceRef,
    operands: &'a Operands,
) -> anyhow::Result<Vec<Named<'a>>> {
    let [fused_bias, bias] = operands.bias.as_ref().context("there should be a bias")?;
    let plain = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
    let epilogue = Epilogue {
        bias: Some(Bias::PerColumn),
        activation: Activation::GeluErf,
        ..Epilogue::default()
    };
    let fused = MatMul { epilogue, ..plain };
    let inputs = [&operands.a, &operands.b];
    let with_bias = [&operands.a, &operands.b, fused_bias];
    let out = &operands.out;
    let named = |variant: &str, kernel, contender| Named {
        variant: variant.to_owned(),
        kernel,
        with_epilogue: true,
        optional: false,
        contender,
    };
    let add = Elementwise { function: Binary::Add.into() };
    let gelu = Elementwise { function: Unary::GeluErf.into() };
    Ok(vec![
        named(
            "bias-gelu fused",
            chosen_kernel(&fused, &with_bias, out),
            Ours::plain(device, fused, &with_bias, out),
        ),
        named(
            "bias-gelu separate",
            chosen_kernel(&plain, &inputs, out),
            Ours {
                then: vec![(add, Some(bias)), (gelu, None)],
                ..Ours::plain(device, plain, &inputs, out)
            },
        ),
    ])
}

/// The kernel that a product would be computed by on an OpenCL device.
fn chosen_kernel(op: &MatMul, inputs: &[&Array], out: &Array) -> Option<String> {
    let opencl = out.device().as_opencl()?;
    let preferred = op.preferred(opencl, inputs, out).into_iter();
    let mut names = preferred
        .chain(usable_kernels(op, inputs, out))
        .map(|kernel| op.kernel_name(kernel, inputs, out));
    names.find(|name| !opencl.is_quarantined(|| name.clone()))
}

/// Fills the result with what no product gives, so that a kernel that does nothing is seen.
pub fn spoil(out: &Array) -> anyhow::Result<()> {
    Ok(fill::into(out, if out.dtype().is_float() { f64::NAN } else { 1e9 })?)
}

/// Another library's product.
pub struct Theirs<'a> {
    pub product: Box<dyn Product + 'a>,
    pub settles_in: Duration,
}

impl Contender for Theirs<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        Ok(self.product.run()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.product.finish()?)
    }

    fn result(&mut self) -> anyhow::Result<Vec<u8>> {
        Ok(self.product.result()?)
    }

    fn settles_in(&self) -> Duration {
        self.settles_in
    }
}
