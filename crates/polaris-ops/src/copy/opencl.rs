//! Copies on OpenCL devices.

use polaris_core::{Collapsed, DType};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::cpu::transposed_axis;
use super::opencl_tiling::Tiling;
use crate::format::{Block, Stored};
use crate::opencl::tuned::{Family, Parameters, Problem, decided, has_decisions, letters};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, moved_types, needs_wide_index, pass_array,
    pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The driver's own copy of dense memory.
    Native,
    /// Dense arrays with a conversion, four elements at a time.
    Vector,
    /// A transposition through local memory.
    Tiled(Tiling),
    /// Any layout, one element at a time.
    Strided,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub fn name(self) -> String {
        match self {
            Self::Native => "native".to_owned(),
            Self::Vector => "vector".to_owned(),
            Self::Tiled(tiling) => format!("tiled{}", tiling.name()),
            Self::Strided => "strided".to_owned(),
        }
    }

    /// The number of its function in the source, if it has one.
    const fn variant(self) -> u64 {
        match self {
            Self::Native | Self::Vector => 0,
            Self::Strided => 1,
            Self::Tiled(_) => 2,
        }
    }
}

/// The texts of every program.
pub(super) const PARTS: &[&str] = &[ELEMENT, include_str!("copy.cl")];

/// Groups along the third axis: some drivers allow no more than 65,535.
const MOST_OUTER_GROUPS: usize = 32_768;

#[derive(Debug, Clone, Copy)]
struct Config {
    kernel: Kernel,
    from: Stored,
    to: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let types = self.from.code() << 8 | dtype_code(self.to);
        let flags = self.kernel.variant() << 1 | u64::from(self.wide);
        let Tiling { tile, rows } = self.tiling();
        let tiling = u64::from(tile) << 8 | u64::from(rows);
        ((types << 8 | flags) << 16 | tiling) << 16 | self.work_group as u64
    }

    /// Of kernels without tiles, the one that the source has for them too.
    fn tiling(&self) -> Tiling {
        match self.kernel {
            Kernel::Tiled(tiling) => tiling,
            _ => Tiling::DEFAULT,
        }
    }

    fn source(&self) -> ProgramSource {
        let (from, to, [loaded, stored], cast) = if self.from == Stored::Dense(self.to) {
            let (name, compute) = moved_types(self.to);
            (name, name, [compute; 2], "(v)".to_owned())
        } else {
            let compute = [self.from.dtype(), self.to].map(compute_type);
            (self.from.name(), self.to.name(), compute, conversion(self.from.dtype(), self.to))
        };
        // Blocks have both kernels in one program: there are many formats, and each program costs a build.
        let (variant, label) = match self.from {
            Stored::Dense(_) => (self.kernel.variant() as i64, self.kernel.name()),
            Stored::Block(_) => (3, "blocks".to_owned()),
        };
        let Tiling { tile, rows } = self.tiling();
        let defines = self.from.texts().fold(Defines::new(), Defines::text);
        let defines = defines
            .code("FROM", from)
            .code("TO", to)
            .code("CAST(v)", cast)
            .code("CF", loaded)
            .code("CT", stored)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("TILE", tile)
            .number("TILE_ROWS", rows)
            .number("VARIANT", variant);
        let name = format!("copy.cl {}_to_{}_{label}", self.from, self.to);
        let wide = if self.wide { "_wide" } else { "" };
        ProgramSource { name: name + wide, parts: PARTS, defines, options: "" }
    }
}

/// The conversion of a loaded value. To a narrow integer it goes through the saturated one, and
/// NaN is sorted out first: what becomes of it is up to the driver.
fn conversion(from: DType, to: DType) -> String {
    let target = match to {
        DType::I8 => "char",
        DType::U8 => "uchar",
        DType::I32 => "int",
        DType::I64 => "long",
        DType::Bool => return "((v) != 0)".to_owned(),
        // Half precisions of f32 are rounded once when they are stored. Other types go by way of a
        // float that was rounded to odd: rounding twice to nearest may go wrong.
        DType::F16 | DType::BF16 if !matches!(from, DType::F32 | DType::F16 | DType::BF16) => {
            return "float_rounded_to_odd(v)".to_owned();
        }
        DType::F32 | DType::F16 | DType::BF16 => return "convert_float(v)".to_owned(),
        DType::F64 => return "convert_double(v)".to_owned(),
    };
    if from.is_float() {
        format!("(isnan(v) ? ({target})0 : convert_{target}_sat(v))")
    } else {
        format!("(({target})(v))")
    }
}

/// The layout of input and output together, with the input broadcast.
fn space(input: &Array, output: &Array) -> Result<Collapsed<2>> {
    let layout = input.layout().broadcast_to("copy", output.shape())?;
    Ok(Collapsed::new(output.shape(), [output.layout(), &layout]))
}

pub fn supports(kernel: Kernel, device: &OpenClDevice, input: &Array, output: &Array) -> bool {
    let same_type = input.stored() == output.stored();
    let capable = same_type
        || device.capabilities().supports(input.dtype())
            && device.capabilities().supports(output.dtype());
    let Ok(space) = space(input, output) else {
        return false;
    };
    let dense =
        space.rank() <= 1 && space.inner().1.iter().all(|&stride| stride == 1 || space.rank() == 0);
    let aligned = |array: &Array| array.first_element().is_multiple_of(4);
    capable
        && match kernel {
            Kernel::Native => same_type && dense && !input.overlaps(output),
            Kernel::Vector => dense && aligned(input) && aligned(output),
            Kernel::Tiled(tiling) => {
                let limits = device.capabilities();
                let fits = tiling.on(limits).check_for(limits, output.dtype().size()).is_ok();
                same_type && fits && transposed_axis(&space).is_some()
            }
            Kernel::Strided => true,
        }
}

/// The tiles that tuning decided on for a transposition.
pub fn preferred(device: &OpenClDevice, input: &Array, output: &Array) -> Option<Kernel> {
    if input.stored() != output.stored() || !has_decisions(device, Family::Permute) {
        return None;
    }
    let space = space(input, output).ok()?;
    let (width, height) = (space.inner().0, space.dims()[transposed_axis(&space)?]);
    let problem = Problem {
        family: Family::Permute,
        dtype: output.dtype(),
        layout: letters(b"t"),
        sizes: [space.elements() / (width * height).max(1), width, height],
    };
    let Parameters::Tiling(tiling) = decided(device, &problem)? else {
        return None;
    };
    let kernel = Kernel::Tiled(tiling);
    supports(kernel, device, input, output).then_some(kernel)
}

pub fn run(device: &OpenClDevice, kernel: Kernel, input: &Array, output: &Array) -> Result<()> {
    let space = space(input, output)?;
    let elements = output.elements();
    let kernel = match kernel {
        Kernel::Tiled(tiling) => Kernel::Tiled(tiling.on(device.capabilities())),
        other => other,
    };
    let wide = kernel != Kernel::Vector && needs_wide_index(&space);
    let config = Config {
        kernel,
        from: input.stored(),
        to: output.dtype(),
        wide,
        work_group: work_group(device),
    };
    let built = |entry: &str| device.kernel(("copy", config.key()), entry, || config.source());
    match kernel {
        Kernel::Native => {
            let view = |array: &Array| {
                let start = array.layout().offset();
                array.buffer().view(start..start + elements)
            };
            view(input)?.copy_to(&view(output)?)?;
        }
        Kernel::Vector => {
            let kernel = built("copy_vector")?;
            let launch = device.launch(&kernel).value(elements as u64);
            let launch = pass_array(pass_array(launch, output), input);
            launch.enqueue(&[elements.div_ceil(4)], &[config.work_group])?;
        }
        Kernel::Strided => {
            let kernel = built("copy_strided")?;
            let mut launch =
                device.launch(&kernel).value(elements as u64).value(space.rank() as u32);
            for axes in [space.dims(), space.strides(0), space.strides(1)] {
                launch = pass_axes(launch, axes, wide);
            }
            pass_array(pass_array(launch, output), input)
                .enqueue(&[elements], &[config.work_group])?;
        }
        Kernel::Tiled(tiling) => {
            let axis =
                transposed_axis(&space).expect("the kernel should be checked to support this");
            let last = space.rank() - 1;
            let outer_axes: Vec<usize> = (0..last).filter(|&a| a != axis).collect();
            let pick =
                |values: &[usize]| outer_axes.iter().map(|&a| values[a]).collect::<Vec<usize>>();
            let kernel = built("copy_tiled")?;
            let (dims, to, from) = (space.dims(), space.strides(0), space.strides(1));
            let outer: usize = pick(dims).iter().product();
            let mut launch =
                device.launch(&kernel).value(outer as u64).value(outer_axes.len() as u32);
            for value in [dims[last], dims[axis], to[last], to[axis], from[last], from[axis]] {
                launch = if wide { launch.value(value as u64) } else { launch.value(value as u32) };
            }
            for values in [dims, to, from] {
                launch = pass_axes(launch, &pick(values), wide);
            }
            let [tile, rows] = [tiling.tile, tiling.rows].map(usize::from);
            let tiles = [dims[last].div_ceil(tile), dims[axis].div_ceil(tile)];
            let global = [tiles[0] * tile, tiles[1] * rows, outer.min(MOST_OUTER_GROUPS)];
            pass_array(pass_array(launch, output), input).enqueue(&global, &[tile, rows, 1])?;
        }
    }
    Ok(())
}

/// Each pair of types, and the sizes of elements with wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    let tiled = Kernel::Tiled(Tiling::DEFAULT);
    for kernel in [Kernel::Vector, Kernel::Strided, tiled] {
        let config = |from, to, wide| {
            let from = Stored::Dense(from);
            Config { kernel, from, to, wide, work_group: 256 }
        };
        for from in DType::ALL {
            let to_types = DType::ALL.into_iter().filter(|&to| kernel != tiled || from == to);
            configs.extend(to_types.map(|to| config(from, to, false)));
        }
        configs.extend(
            [DType::U8, DType::F16, DType::F32, DType::F64].map(|dtype| config(dtype, dtype, true)),
        );
    }
    // The other ends of what tuning may choose.
    for tiling in [Tiling { tile: 16, rows: 16 }, Tiling { tile: 64, rows: 4 }] {
        let (kernel, to) = (Kernel::Tiled(tiling), DType::F32);
        let from = Stored::Dense(to);
        configs.push(Config { kernel, from, to, wide: false, work_group: 256 });
    }
    for block in Block::ALL {
        let (from, to) = (Stored::Block(block), DType::F32);
        configs.push(Config { kernel: Kernel::Strided, from, to, wide: false, work_group: 256 });
    }
    configs.iter().map(Config::source).collect()
}
