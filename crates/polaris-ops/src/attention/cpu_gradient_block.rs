//! The operands of a block of queries in the gradient on the CPU, loaded once for all keys.

use super::cpu_loops::{LANES, scale, sums_of_products};
use super::cpu_tiles::{Operand, QUERIES};
use super::geometry::Sizes;
use crate::matmul::{TileNumber, Tiles};

/// The arrays with a row for each query.
pub struct QuerySide {
    pub sizes: Sizes,
    pub q: Operand,
    pub output: Operand,
    pub log_sum_exp: Operand,
    pub g: Operand,
}

/// A block of queries of one head.
pub struct Place {
    pub batch: usize,
    pub head: usize,
    pub key_head: usize,
    pub first_query: usize,
    pub queries: usize,
}

impl Place {
    /// Columns of a tile of these queries.
    pub fn columns(&self) -> usize {
        self.queries.next_multiple_of(LANES)
    }
}

/// What a block of queries brings, for all keys.
pub struct Block<C> {
    /// The queries, scaled, and the gradients of their outputs, as columns.
    pub turned_queries: Vec<C>,
    pub turned_g: Vec<C>,
    /// Both again, as they are, as rows.
    pub queries: Vec<C>,
    pub g: Vec<C>,
    pub log_sum_exp: Vec<C>,
    /// The mean of each query's slopes: the sum of its output times the gradient of it.
    pub means: Vec<C>,
}

impl<C: TileNumber> Block<C> {
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { depth, values, .. } = *sizes;
        let zeros = |elements: usize| vec![C::default(); elements];
        Self {
            turned_queries: zeros(depth * QUERIES),
            turned_g: zeros(values * QUERIES),
            queries: zeros(QUERIES * depth.next_multiple_of(LANES)),
            g: zeros(QUERIES * values.next_multiple_of(LANES)),
            log_sum_exp: Vec::new(),
            means: Vec::new(),
        }
    }

    /// Loads what a block of queries brings; `outputs` is memory for their outputs.
    pub fn load(&mut self, tiles: &Tiles<C>, side: &QuerySide, place: &Place, outputs: &mut [C]) {
        let Sizes { depth, values, scale: factor, .. } = side.sizes;
        let columns = place.columns();
        let rows = |operand: &Operand| {
            operand.rows(place.batch, place.head, place.first_query, place.queries)
        };
        let (q, g) = (rows(&side.q), rows(&side.g));
        self.log_sum_exp.clear();
        self.log_sum_exp.resize(columns, C::default());
        // SAFETY: the rows lie inside their arrays, which are registered as read.
        unsafe {
            q.turn(tiles, depth, columns, &mut self.turned_queries);
            g.turn(tiles, values, columns, &mut self.turned_g);
            q.copy(tiles, depth, depth.next_multiple_of(LANES), &mut self.queries);
            g.copy(tiles, values, values.next_multiple_of(LANES), &mut self.g);
            rows(&side.output).turn(tiles, values, columns, outputs);
            rows(&side.log_sum_exp).turn(tiles, 1, columns, &mut self.log_sum_exp);
        }
        scale(tiles.level, &mut self.turned_queries[..depth * columns], C::of(factor));
        let elements = values * columns;
        self.means.resize(columns, C::default());
        let (g, outputs) = (&self.turned_g[..elements], &outputs[..elements]);
        sums_of_products(tiles.level, g, outputs, &mut self.means);
        // Queries that see nothing have no weights: less plus infinity, no score has an
        // exponential.
        let lowest = C::of(f64::NEG_INFINITY);
        for logarithm in &mut self.log_sum_exp {
            *logarithm = if *logarithm == lowest { -lowest } else { *logarithm };
        }
    }
}
