//! The contenders of a case: the variants of our matmul, and other libraries.

use std::time::Duration;

use polaris_core::DType;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::matmul::{
    Activation, Bias, Epilogue, Kernel, Overlap, Technique, VARIANTS, strassen_into,
};
use polaris_ops::{
    Array, Binary, MatMul, Operation, Unary, run as run_operation, run_kernel, usable_kernels,
};
use polaris_peers::Product;
use polaris_runtime::DeviceKind;
use polaris_runtime::DeviceRef;

use super::cases::{Case, VariantChoice};
use super::operands::{Operands, bytes_of};
use crate::timing::Contender;
use crate::{Error, Result};

/// Our helper threads look for work for a while before they sleep.
const OUR_THREADS_SETTLE_IN: Duration = Duration::from_micros(100);

/// A product of our own.
pub struct Ours<'a> {
    device: &'a DeviceRef,
    op: MatMul,
    way: Way,
    inputs: Vec<&'a Array>,
    out: &'a Array,
    /// What follows as operations of its own, in place.
    then: Vec<(Elementwise, Option<&'a Array>)>,
    /// How the last product that was streamed hid its copies.
    overlap: Option<Overlap>,
}

/// How a product is computed.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// By the kernel that is chosen.
    Chosen,
    Kernel(Kernel),
    Recursive,
    /// From operands on the host.
    Streamed,
}

impl<'a> Ours<'a> {
    /// The bytes of the result.
    pub fn result(&self) -> Result<Vec<u8>> {
        bytes_of(self.out)
    }

    /// Where the result goes.
    pub fn out(&self) -> &'a Array {
        self.out
    }

    /// A product of arrays on the host, which a device computes in blocks.
    pub fn streamed(
        device: &'a DeviceRef,
        op: MatMul,
        inputs: &[&'a Array],
        out: &'a Array,
    ) -> Self {
        Self { way: Way::Streamed, ..Self::plain(device, op, inputs, out) }
    }

    /// A product by the kernel that is chosen for it.
    pub fn plain(device: &'a DeviceRef, op: MatMul, inputs: &[&'a Array], out: &'a Array) -> Self {
        let (way, inputs) = (Way::Chosen, inputs.to_vec());
        Self { device, op, way, inputs, out, then: Vec::new(), overlap: None }
    }

    /// For how long copies and products were under way in the last run, if it was streamed.
    pub fn overlap(&self) -> Option<Overlap> {
        self.overlap
    }
}

impl Contender for Ours<'_> {
    fn run(&mut self) -> Result<()> {
        match self.way {
            Way::Chosen => run_operation(&self.op, &self.inputs, self.out)?,
            Way::Kernel(kernel) => run_kernel(&self.op, kernel, &self.inputs, self.out)?,
            Way::Recursive => strassen_into(self.inputs[0], self.inputs[1], self.out, 1)?,
            Way::Streamed => {
                let streamed = self.op.stream(self.device, &self.inputs, self.out)?;
                self.overlap = Some(streamed.overlap);
            }
        }
        for (op, operand) in &self.then {
            let inputs: Vec<&Array> = [self.out].into_iter().chain(*operand).collect();
            run_operation(op, &inputs, self.out)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
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

/// The variants of the plain product that are requested and work; notes say which do not.
pub fn variants<'a>(
    case: &Case,
    device: &'a DeviceRef,
    operands: &'a Operands,
    choices: &[VariantChoice],
    note: &mut dyn FnMut(String),
) -> Vec<Named<'a>> {
    let op = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
    let inputs = [&operands.a, &operands.b];
    let ours = |way| Ours { way, ..Ours::plain(device, op, &inputs, &operands.out) };
    let default = || Named {
        variant: "default".to_owned(),
        kernel: chosen_kernel(&op, &inputs, &operands.out),
        with_epilogue: false,
        optional: false,
        contender: ours(Way::Chosen),
    };
    let Some(opencl) = device.as_opencl() else {
        if choices.iter().all(|choice| matches!(choice, VariantChoice::Named(_))) {
            note(format!("{} has no variants; its default is measured", device.id()));
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
            let one = |kernel, contender| Named {
                variant: variant.name.to_owned(),
                kernel,
                with_epilogue: variant.technique == Technique::Fused,
                optional: all,
                contender,
            };
            let is_f32 = case.numbers.dtype() == DType::F32;
            let chosen = || chosen_kernel(&op, &inputs, &operands.out);
            let entry = match (variant.technique, &operands.extra) {
                (Technique::Kernel(kernel), _) => {
                    let fits = kernel.fits(opencl, case.numbers.dtype())
                        && (is_f32 || op.supports(kernel, opencl, &inputs, &operands.out));
                    let name = op.kernel_name(kernel, &inputs, &operands.out);
                    fits.then(|| one(Some(name), ours(Way::Kernel(kernel))))
                }
                (Technique::Recursive, _) => is_f32.then(|| one(chosen(), ours(Way::Recursive))),
                (Technique::HalfStorage, Some(extra)) => {
                    let halves = [&extra.halves[0], &extra.halves[1]];
                    let name = chosen_kernel(&op, &halves, &operands.out);
                    Some(one(name, Ours::plain(device, op, &halves, &operands.out)))
                }
                (Technique::Streamed, Some(extra)) => Some(one(
                    None,
                    Ours::streamed(device, op, &extra.host_inputs(), &extra.host_out),
                )),
                (Technique::Fused, _) => match &operands.bias {
                    Some([bias, _]) => {
                        let fused = with_bias_gelu(op);
                        let inputs = [&operands.a, &operands.b, bias];
                        let name = chosen_kernel(&fused, &inputs, &operands.out);
                        Some(one(name, Ours::plain(device, fused, &inputs, &operands.out)))
                    }
                    None => None,
                },
                (_, None) => None,
            };
            if let Some(entry) = entry {
                named.push(entry);
            } else if !all {
                note(format!(
                    "{}: the variant {} does not support {} {}; skipped",
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

/// The product in blocks, of operands that have no room on the device.
pub fn streamed<'a>(case: &Case, device: &'a DeviceRef, on_host: &'a Operands) -> Named<'a> {
    let op = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
    Named {
        variant: "streamed".to_owned(),
        kernel: None,
        with_epilogue: false,
        optional: false,
        contender: Ours::streamed(device, op, &[&on_host.a, &on_host.b], &on_host.out),
    }
}

/// A product with a bias and GELU fused in.
fn with_bias_gelu(op: MatMul) -> MatMul {
    let epilogue = Epilogue {
        bias: Some(Bias::PerColumn),
        activation: Activation::GeluErf,
        ..Epilogue::default()
    };
    MatMul { epilogue, ..op }
}

/// A bias and GELU: fused into the product, and as operations of their own.
pub fn bias_gelu<'a>(
    case: &Case,
    device: &'a DeviceRef,
    operands: &'a Operands,
) -> Result<Vec<Named<'a>>> {
    let [fused_bias, bias] =
        operands.bias.as_ref().ok_or(Error::BadWorkload("there should be a bias"))?;
    let plain = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
    let fused = with_bias_gelu(plain);
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
    let kernels = usable_kernels(op, inputs, out).into_iter();
    let mut names = kernels.map(|kernel| op.kernel_name(kernel, inputs, out));
    names.find(|name| !opencl.is_quarantined(|| name.clone()))
}

/// Another library's product.
pub struct Theirs<'a> {
    pub product: Box<dyn Product + 'a>,
    pub settles_in: Duration,
}

impl Theirs<'_> {
    /// The bytes of the result.
    pub fn result(&mut self) -> Result<Vec<u8>> {
        Ok(self.product.result()?)
    }
}

impl Contender for Theirs<'_> {
    fn run(&mut self) -> Result<()> {
        Ok(self.product.run()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.product.finish()?)
    }

    fn settles_in(&self) -> Duration {
        self.settles_in
    }
}
