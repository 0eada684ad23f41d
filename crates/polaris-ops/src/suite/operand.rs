//! Operands in every kind of layout: strided, permuted, broadcast, at odd offsets, between guards.

use crate::{Array, Result};
use polaris_core::{Collapsed, DType, Layout, Shape};
use polaris_runtime::{DeviceExt, DeviceRef};

use super::values::{Domain, Numbers, download, draw, upload};
use crate::format::{Block, Role};
use crate::weight::prepare;

/// The layout of an array in its buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// Elements in front of the first one.
    pub offset: usize,
    /// Reverses the order of the axes in memory.
    pub transposed: bool,
    /// Elements between neighbours along the fastest axis, beyond the next one.
    pub gap: usize,
    /// Elements between rows.
    pub padding: usize,
    /// Axes along which one element is repeated (inputs only), as a bit mask.
    pub broadcast: u8,
    /// Leading axes that are missing and thereby repeated (inputs only).
    pub missing_axes: usize,
}

/// Elements before and after each array that nobody may touch.
const GUARD: usize = 16;

/// An array to be: its place and the contents of its whole buffer.
#[derive(Debug, Clone)]
pub struct Operand {
    /// The element type.
    pub dtype: DType,
    /// The place in the buffer.
    pub layout: Layout,
    /// Everything in the buffer, guards and gaps included.
    pub contents: Vec<f64>,
    /// How it is stored.
    pub storage: Storage,
}

/// How an operand is stored.
#[derive(Debug, Clone)]
pub enum Storage {
    /// As elements of its type.
    Dense,
    /// As blocks, which these bytes are.
    Blocks(Block, Vec<u8>),
    /// As the device likes it best for what it is used for.
    Prepared(Role),
}

impl Operand {
    /// An input that broadcasts to the shape.
    pub fn input(
        shape: &[usize],
        arrangement: &Arrangement,
        dtype: DType,
        domain: Domain,
        special: bool,
        numbers: &mut Numbers,
    ) -> Self {
        let own: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &dim)| if arrangement.broadcast >> axis & 1 == 1 { 1 } else { dim })
            .skip(arrangement.missing_axes.min(shape.len()))
            .collect();
        Self::placed(&own, arrangement, dtype, domain, special, numbers)
    }

    /// An output of exactly the shape, over dirty memory.
    pub fn output(
        shape: &[usize],
        arrangement: &Arrangement,
        dtype: DType,
        numbers: &mut Numbers,
    ) -> Self {
        Self::placed(shape, arrangement, dtype, Domain::Any, false, numbers)
    }

    fn placed(
        shape: &[usize],
        arrangement: &Arrangement,
        dtype: DType,
        domain: Domain,
        special: bool,
        numbers: &mut Numbers,
    ) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut next = 1 + arrangement.gap;
        let fastest_first: Vec<usize> = if arrangement.transposed {
            (0..shape.len()).collect()
        } else {
            (0..shape.len()).rev().collect()
        };
        for axis in fastest_first {
            strides[axis] = next;
            next = next * shape[axis].max(1) + arrangement.padding;
        }
        let shape = Shape::new(shape).expect("test shapes should be small");
        let layout = Layout::new(shape, &strides, GUARD + arrangement.offset)
            .expect("test layouts should be small");
        let length = layout.end().max(layout.offset()) + GUARD;
        let contents = draw(numbers, dtype, domain, special, length);
        Self { dtype, layout, contents, storage: Storage::Dense }
    }

    /// A weight of blocks, row after row.
    pub fn blocks(shape: &[usize], block: Block, numbers: &mut Numbers) -> Self {
        let shape = Shape::new(shape).expect("test shapes should be small");
        let count = shape.elements().div_ceil(block.elements()).max(1);
        let drawn = draw(numbers, DType::F32, Domain::Any, false, count * block.elements());
        let mut values: Vec<f32> = drawn.iter().map(|&value| value as f32).collect();
        let mut bytes = vec![0; count * block.bytes()];
        block.encode_nearest(&values, &mut bytes).expect("test values should be small");
        block.decode(&bytes, &mut values);
        Self {
            dtype: DType::F32,
            layout: Layout::contiguous(shape),
            contents: values.into_iter().map(f64::from).collect(),
            storage: Storage::Blocks(block, bytes),
        }
    }

    /// An output of blocks over dirty memory, with a block before and behind it that nobody may touch.
    pub fn block_output(shape: &[usize], block: Block, numbers: &mut Numbers) -> Self {
        let shape = Shape::new(shape).expect("test shapes should be small");
        let all = shape.elements() + 2 * block.elements();
        let guarded = Self::blocks(&[all], block, numbers);
        let dense = Layout::contiguous(shape);
        let layout = Layout::new(shape, dense.strides(), block.elements())
            .expect("test layouts should be small");
        Self { layout, ..guarded }
    }

    /// The same as a weight that is made ready for what it is used for.
    #[must_use]
    pub fn prepared(self, role: Role) -> Self {
        Self { storage: Storage::Prepared(role), ..self }
    }

    /// What it is stored as, in a word.
    pub(super) fn storage_name(&self) -> String {
        match &self.storage {
            Storage::Dense => self.dtype.name().to_owned(),
            Storage::Blocks(block, _) => block.lower_name().to_owned(),
            Storage::Prepared(_) => format!("{}_panels", self.dtype),
        }
    }

    /// The elements in row-major order.
    pub fn elements(&self) -> Vec<f64> {
        let space = Collapsed::new(self.layout.shape(), [&self.layout]);
        (0..self.layout.elements()).map(|point| self.contents[space.point(point)[0]]).collect()
    }

    /// The array on a device.
    pub fn on(&self, device: &DeviceRef) -> Result<Array> {
        match &self.storage {
            Storage::Dense => Array::new(upload(device, self.dtype, &self.contents)?, self.layout),
            Storage::Blocks(block, bytes) => {
                Array::of_blocks(device.upload(bytes)?, self.layout, *block)
            }
            Storage::Prepared(role) => {
                let buffer = upload(device, self.dtype, &self.contents)?;
                prepare(*role, &Array::new(buffer, self.layout)?)
            }
        }
    }

    /// An array of the same place on a device, with contents of any kind.
    pub fn space_on(&self, device: &DeviceRef) -> Result<Array> {
        match &self.storage {
            Storage::Dense => {
                Array::new(device.allocate(self.dtype, self.contents.len())?, self.layout)
            }
            _ => self.on(device),
        }
    }

    /// The elements that an array has now, and the first element outside of it that has changed.
    pub fn compare_surroundings(&self, array: &Array) -> Result<(Vec<f64>, Option<usize>)> {
        let mut now = download(array.buffer())?;
        if let Storage::Blocks(block, _) = self.storage {
            let bytes: Vec<u8> = now.iter().map(|&byte| byte as u8).collect();
            let mut elements = vec![0.0; bytes.len() / block.bytes() * block.elements()];
            block.decode(&bytes, &mut elements);
            now = elements.into_iter().map(f64::from).collect();
        }
        let space = Collapsed::new(self.layout.shape(), [&self.layout]);
        let mut inside = vec![false; now.len()];
        let mut elements = Vec::with_capacity(self.layout.elements());
        for point in 0..self.layout.elements() {
            let [at] = space.point(point);
            inside[at] = true;
            elements.push(now[at]);
        }
        let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        let touched = (0..now.len()).find(|&at| !inside[at] && !same(now[at], self.contents[at]));
        Ok((elements, touched))
    }
}
