//! Images as the loops need them: NHWC, with zeros for padding. Images in that form are read in place; others are
//! copied, as much at a time as stays in the caches. Loops that skip taps beyond the border take images without
//! padding.

use polaris_runtime::cpu::CpuDevice;

use super::super::super::geometry::{Geometry, strides};
use crate::Array;
use crate::cpu::map::SendPointer;

/// Bytes of padded copies at a time.
const ROOM: usize = 2 << 20;

/// Rows of the result of some images that are computed together: either whole images, or some rows of
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub first_image: usize,
    pub images: usize,
    pub first_row: usize,
    pub rows: usize,
}

/// The images of a part: element `(image, row, column, channel)` of the padded input. Rows count from
/// the first that the part's first row of the result sees.
#[derive(Clone, Copy)]
pub(super) struct Padded {
    pub start: SendPointer,
    pub image: usize,
    pub row: usize,
    pub column: usize,
}

impl Padded {
    pub fn at(&self, image: usize, row: usize, column: usize) -> *const f32 {
        let element = image * self.image + row * self.row + column * self.column;
        self.start.get().cast::<f32>().cast_const().wrapping_add(element)
    }
}

/// The input and how it becomes padded.
pub(super) struct Source<'a> {
    geometry: &'a Geometry,
    strides: [usize; 4],
    channels: usize,
    in_place: bool,
    /// Zeros before the first row and column.
    padding: [usize; 2],
}

impl<'a> Source<'a> {
    /// Images with their padding.
    pub fn padded(x: &Array, geometry: &'a Geometry) -> Self {
        Self::new(x, geometry, geometry.lengths.map(|lengths| lengths.padding))
    }

    /// Images without padding; each part has whole ones.
    pub fn plain(x: &Array, geometry: &'a Geometry) -> Self {
        Self::new(x, geometry, [0; 2])
    }

    fn new(x: &Array, geometry: &'a Geometry, padding: [usize; 2]) -> Self {
        let strides = strides(x);
        let channels = geometry.groups * geometry.inputs;
        let in_place = padding == [0; 2] && (strides[1] == 1 || channels == 1);
        Self { geometry, strides, channels, in_place, padding }
    }

    /// Whether there is padding that is left out.
    fn leaves_out(&self) -> bool {
        self.geometry.lengths.iter().zip(self.padding).any(|(l, padding)| l.padding != padding)
    }

    /// Columns of the padded input that are seen.
    fn columns(&self) -> usize {
        if self.leaves_out() {
            return self.geometry.lengths[1].input;
        }
        let columns = &self.geometry.lengths[1];
        (columns.output - 1) * columns.stride + (columns.kernel - 1) * columns.dilation + 1
    }

    /// Rows of the padded input that so many rows of the result see.
    fn rows(&self, rows: usize) -> usize {
        if self.leaves_out() {
            return self.geometry.lengths[0].input;
        }
        let lengths = &self.geometry.lengths[0];
        (rows - 1) * lengths.stride + (lengths.kernel - 1) * lengths.dilation + 1
    }

    fn row_elements(&self) -> usize {
        self.columns() * self.channels
    }

    /// Images, and rows of the result, of a part.
    fn part_size(&self) -> (usize, usize) {
        let rows = self.geometry.lengths[0].output;
        if self.in_place {
            return (self.geometry.images, rows);
        }
        let row_bytes = self.row_elements() * size_of::<f32>();
        let image_bytes = self.rows(rows) * row_bytes;
        if image_bytes <= ROOM || self.leaves_out() {
            return ((ROOM / image_bytes.max(1)).clamp(1, self.geometry.images), rows);
        }
        let lengths = &self.geometry.lengths[0];
        let seen = (ROOM / row_bytes.max(1)).saturating_sub(self.rows(1));
        (1, (seen / lengths.stride + 1).min(rows))
    }

    /// What `load` needs for its copies.
    pub fn scratch_bytes(&self) -> usize {
        if self.in_place {
            return 0;
        }
        let (images, rows) = self.part_size();
        images * self.rows(rows) * self.row_elements() * size_of::<f32>()
    }

    /// The parts, one after another.
    pub fn parts(&self) -> Vec<Part> {
        let all = self.geometry.lengths[0].output;
        let (images, rows) = self.part_size();
        let mut parts = Vec::new();
        for first_image in (0..self.geometry.images).step_by(images) {
            let images = images.min(self.geometry.images - first_image);
            for first_row in (0..all).step_by(rows) {
                let rows = rows.min(all - first_row);
                parts.push(Part { first_image, images, first_row, rows });
            }
        }
        parts
    }

    /// The images of a part, copied to `copy` if they must be.
    ///
    /// # Safety
    /// `x` must be the input's first element, and `copy` have room for `scratch_bytes`.
    pub unsafe fn load(
        &self,
        cpu: &CpuDevice,
        part: &Part,
        x: SendPointer,
        copy: SendPointer,
    ) -> Padded {
        let [image, _, row, column] = self.strides;
        let lengths = &self.geometry.lengths[0];
        if self.in_place {
            let first = part.first_image * image + part.first_row * lengths.stride * row;
            let start = x.get().cast::<f32>().wrapping_add(first).cast();
            return Padded { start: SendPointer(start), image, row, column };
        }
        let rows = self.rows(part.rows);
        let width = self.row_elements();
        let padded = Padded { start: copy, image: rows * width, row: width, column: self.channels };
        if width == 0 {
            // There is no copy, and every tap lies on padding.
            return padded;
        }
        let grain = (16 << 10) / width + 1;
        cpu.pool().for_chunks(part.images * rows, grain, |chunk| {
            for index in chunk {
                let (image, row) = (index / rows, index % rows);
                let from = (part.first_row * lengths.stride + row).checked_sub(self.padding[0]);
                let from = from.filter(|&row| row < lengths.input);
                // SAFETY: the row lies inside the copy, and is this thread's alone.
                let to = unsafe {
                    std::slice::from_raw_parts_mut(padded.at(image, row, 0).cast_mut(), width)
                };
                match from {
                    None => to.fill(0.0),
                    Some(from) => {
                        let at = (part.first_image + image) * self.strides[0];
                        let start = x.get().cast::<f32>().wrapping_add(at + from * self.strides[2]);
                        // SAFETY: the row lies inside the input.
                        unsafe { self.load_row(start, to) };
                    }
                }
            }
        });
        padded
    }

    /// # Safety
    /// `from` must be the first element of a row of the input.
    unsafe fn load_row(&self, from: *const f32, to: &mut [f32]) {
        let (channels, lengths) = (self.channels, &self.geometry.lengths[1]);
        let (before, rest) = to.split_at_mut(self.padding[1] * channels);
        let seen = lengths.input.min(rest.len() / channels);
        let (inside, after) = rest.split_at_mut(seen * channels);
        before.fill(0.0);
        after.fill(0.0);
        let [_, channel_stride, _, column_stride] = self.strides;
        if channel_stride == 1 && column_stride == channels {
            // SAFETY: columns follow one another, and all lie inside the input.
            inside.copy_from_slice(unsafe { std::slice::from_raw_parts(from, inside.len()) });
            return;
        }
        // Written in order; of colours there are three, for which the inner loop is not a loop.
        // SAFETY: every element lies inside the input.
        let element = |channel: usize, column: usize| unsafe {
            *from.add(channel * channel_stride + column * column_stride)
        };
        if channels == 3 {
            for (column, to) in inside.chunks_exact_mut(3).enumerate() {
                to.copy_from_slice(&[element(0, column), element(1, column), element(2, column)]);
            }
            return;
        }
        for (column, to) in inside.chunks_exact_mut(channels).enumerate() {
            for (channel, to) in to.iter_mut().enumerate() {
                *to = element(channel, column);
            }
        }
    }
}
