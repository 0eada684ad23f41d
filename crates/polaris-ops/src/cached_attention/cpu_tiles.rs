//! Attention of many queries to a cache on the CPU: tiles with a row for each key and a column for each query, as in
//! [`attention`](crate::attention).

use std::ops::Range;

use polaris_core::DType;

use super::cpu::{Job, Scratch, Softmax};
use super::cpu_loops::{add_slopes, cap_scores};
use super::cpu_tokens::{KEYS, Span, Task};
use super::geometry::Sizes;
use crate::attention::cpu_loops::{LANES, Running, scale, scale_columns, soften};
use crate::matmul::{Strip, TileProduct};

impl Job<'_> {
    /// Many queries: tiles with a row for each key and a column for each query.
    pub fn tiles(&self, span: &Span, task: &Task, scratch: &mut Scratch) -> Softmax {
        let Sizes { depth, values, .. } = self.sizes;
        let (count, tiles, level) = (self.columns(span), &self.tiles, self.level());
        let columns = count.next_multiple_of(LANES);
        let Scratch { queries, scores, sums, rows, keys: own_keys, values: own_values, runs } =
            scratch;
        let (queries, sums) = (&mut queries[..depth * columns], &mut sums[..values * columns]);
        queries.fill(0.0);
        for column in 0..count {
            let (token, head) = self.place(column, task.key_head);
            let row = self.q.row(span.first_token + token, head);
            for element in 0..depth {
                // SAFETY: the row lies inside q, which is registered as read.
                queries[element * columns + column] =
                    unsafe { *row.start.cast::<f32>().add(element * row.stride) };
            }
        }
        scale(level, queries, self.sizes.scale as f32);
        sums.fill(0.0);
        let slopes = self.slopes.as_ref().map(|slopes| {
            let of_column = |column: usize| match column < count {
                true => {
                    let (token, head) = self.place(column, task.key_head);
                    (slopes[head], span.positions[token] as f32)
                }
                false => (0.0, 0.0),
            };
            (0..columns).map(of_column).unzip::<f32, f32, Vec<f32>, Vec<f32>>()
        });
        let mut running = Running::<f32>::new(columns);
        let place = [span.sequence, task.key_head];
        for first in task.keys.clone().step_by(KEYS) {
            let keys = first..task.keys.end.min(first + KEYS);
            let scores = &mut scores[..keys.len() * columns];
            // SAFETY: the span's positions were checked, and all arrays are registered.
            unsafe { self.k.runs(&self.tiles, place, &keys, own_keys, runs) };
            for run in &*runs {
                let product = TileProduct {
                    m: run.count,
                    n: columns,
                    k: depth,
                    a: run.rows.start,
                    a_stride: run.rows.stride,
                    a_rows_are_adjacent: false,
                    b: queries.as_ptr(),
                    b_stride: columns,
                    from: std::ptr::null(),
                    to: scores[run.first * columns..].as_mut_ptr(),
                    to_stride: columns,
                };
                // SAFETY: the run's rows are readable, and the tiles have room for whole vectors.
                unsafe { tiles.multiply(&product) };
            }
            if let Some(cap) = self.op.softcap {
                cap_scores(level, scores, cap as f32);
            }
            if let Some((slopes, from)) = &slopes {
                add_slopes(level, scores, slopes, from, first as f32);
            }
            self.hide(span, &keys, columns, scores);
            if soften(level, scores, &mut running) {
                scale_columns(level, sums, &running.factors);
            }
            // SAFETY: the span's positions were checked, and all arrays are registered.
            unsafe { self.v.runs(&self.tiles, place, &keys, own_values, runs) };
            for run in &*runs {
                let product = TileProduct {
                    m: values,
                    n: columns,
                    k: run.count,
                    a: run.rows.start,
                    a_stride: run.rows.stride,
                    a_rows_are_adjacent: true,
                    b: scores[run.first * columns..].as_ptr(),
                    b_stride: columns,
                    from: sums.as_ptr(),
                    to: sums.as_mut_ptr(),
                    to_stride: columns,
                };
                // SAFETY: as above.
                unsafe { tiles.multiply(&product) };
            }
        }
        let strip = Strip {
            start: sums.as_ptr().cast(),
            lanes: values,
            lane_stride: columns,
            depth: count,
            depth_stride: 1,
        };
        // SAFETY: there is room for a row of each query.
        unsafe { tiles.pack(DType::F32, &strip, values, rows.as_mut_ptr()) };
        Softmax { largest: running.largest, sums: running.sums }
    }

    /// Sets the scores of what a token does not see.
    fn hide(&self, span: &Span, keys: &Range<usize>, columns: usize, scores: &mut [f32]) {
        let group = self.sizes.group();
        for (token, &position) in span.positions.iter().enumerate() {
            let sight = self.op.sight(position);
            let [start, end] =
                [sight.start, sight.end].map(|at| at.clamp(keys.start, keys.end) - keys.start);
            for key in (0..start).chain(end..keys.len()) {
                scores[key * columns + token * group..][..group].fill(f32::NEG_INFINITY);
            }
        }
    }
}
