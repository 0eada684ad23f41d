//! A product of matrices by tiles, as the model is told about it.

use crate::error::{Error, Result};
use crate::loops::Nest;

/// A product `m x k` by `k x n` of `f32`, computed by tiles in local memory. Both factors lie in
/// rows: A along k, B along n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TiledProduct {
    /// Rows of the result.
    pub m: u32,
    /// Columns of the result.
    pub n: u32,
    /// What is summed over.
    pub k: u32,
    /// Rows of the result that a work-group computes.
    pub tile_m: u32,
    /// Columns of the result that a work-group computes.
    pub tile_n: u32,
    /// Length of a step along k.
    pub tile_k: u32,
    /// Work-items of a work-group.
    pub threads: u32,
    /// Rows of sums of a work-item.
    pub rows: u32,
    /// Columns of sums of a work-item.
    pub columns: u32,
    /// How memory is accessed.
    pub access: Access,
}

/// What the instructions do not show of a kernel's accesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Access {
    /// Work-groups begin at different places of k where lines would all lie in one channel. Ours
    /// do.
    pub staggered: bool,
    /// Neighbouring work-items load from different cache lines. Those of ours load neighbours.
    pub scattered: bool,
    /// How many accesses to one bank of local memory a read makes at once: 1 if there are no
    /// conflicts, as in our kernels.
    pub bank_conflicts: f64,
}

impl Default for Access {
    fn default() -> Self {
        Self { staggered: true, scattered: false, bank_conflicts: 1.0 }
    }
}

impl TiledProduct {
    /// Floating-point operations of the product, without what tiles beyond the edge add.
    pub fn operations(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }

    /// Tiles along m and n.
    pub fn tiles(&self) -> [u32; 2] {
        [self.m.div_ceil(self.tile_m), self.n.div_ceil(self.tile_n)]
    }

    /// Steps along k.
    pub fn steps(&self) -> u32 {
        self.k.div_ceil(self.tile_k)
    }

    /// Multiply-adds of a work-item in one step along k.
    pub fn products(&self) -> u32 {
        self.rows * self.columns * self.tile_k
    }

    /// Bytes of both factors that a work-item loads in one step along k.
    fn load_bytes(&self) -> f64 {
        f64::from(4 * (self.tile_m + self.tile_n) * self.tile_k) / f64::from(self.threads)
    }

    /// What does not fit together, if anything does not.
    fn fault(&self) -> Option<&'static str> {
        let sizes = [self.m, self.n, self.k, self.tile_m, self.tile_n, self.tile_k, self.threads];
        let sums = u64::from(self.rows) * u64::from(self.columns) * u64::from(self.threads);
        let tile = u64::from(self.tile_m) * u64::from(self.tile_n);
        if sizes.contains(&0) {
            Some("all sizes are at least one")
        } else if sums != tile {
            Some("the accumulators of all work-items do not cover the tile")
        } else if self.threads > 1024 {
            Some("a work-group has at most 1024 work-items")
        } else if self.access.bank_conflicts.is_nan() || self.access.bank_conflicts < 1.0 {
            Some("a read accesses a bank at least once")
        } else {
            None
        }
    }
}

/// How often each loop of a kernel is run through for a product.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// The loop along k.
    pub main: usize,
    /// Steps along k in one turn of it: more than one if the compiler wrote several out.
    pub steps: f64,
    /// Turns of each loop in one turn of the loop it is in. Loops that are not in the main loop
    /// have none.
    pub inner: Vec<u32>,
}

impl Turns {
    /// Finds the loop along k and follows from its multiply-adds, and those that a step needs, how
    /// often the loops in it are run through.
    pub fn of(nest: &Nest, product: &TiledProduct, kernel: &str) -> Result<Self> {
        let fail = |why: &str| Error::Model { kernel: kernel.to_owned(), why: why.to_owned() };
        if let Some(fault) = product.fault() {
            return Err(fail(fault));
        }
        let outermost = (0..nest.loops.len()).filter(|&at| nest.loops[at].parent.is_none());
        let main = outermost.max_by_key(|&at| nest.products(at));
        let main = main.filter(|&at| nest.products(at) > 0);
        let main = main.ok_or_else(|| fail("no loop has multiply-adds"))?;

        let within = descendants(nest, main);
        let needed = f64::from(product.products());
        let own = f64::from(nest.loops[main].mix.products());
        let inner: f64 = within.iter().map(|&at| f64::from(nest.loops[at].mix.products())).sum();
        let (steps, product_turns) = if inner == 0.0 {
            (own / needed, 0)
        } else {
            let turns = ((needed - own) / inner).round();
            if turns < 1.0 {
                return Err(fail("a step along k has fewer multiply-adds than the loop in it"));
            }
            (1.0, turns as u32)
        };
        if steps < 0.5 {
            return Err(fail("the loop along k has fewer multiply-adds than a step"));
        }

        // Loops without multiply-adds copy what the instructions outside of them do not.
        let loads = |at: usize| f64::from(nest.loops[at].mix.load_bytes);
        let is_copy = |&at: &usize| nest.loops[at].mix.products() == 0 && loads(at) > 0.0;
        let copied: f64 = within.iter().copied().filter(is_copy).map(loads).sum();
        let missing = product.load_bytes() * steps - loads(main);
        let copy_turns = if copied > 0.0 { (missing / copied).round().max(1.0) as u32 } else { 1 };

        let mut turns = vec![0; nest.loops.len()];
        for at in within {
            turns[at] = match nest.loops[at].mix.products() {
                0 if is_copy(&at) => copy_turns,
                0 => 1,
                _ => product_turns,
            };
        }
        Ok(Self { main, steps, inner: turns })
    }
}

fn descendants(nest: &Nest, of: usize) -> Vec<usize> {
    let direct = nest.children(of);
    direct.flat_map(|at| std::iter::once(at).chain(descendants(nest, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product() -> TiledProduct {
        TiledProduct {
            m: 256,
            n: 256,
            k: 256,
            tile_m: 64,
            tile_n: 64,
            tile_k: 8,
            threads: 256,
            rows: 4,
            columns: 4,
            access: Access::default(),
        }
    }

    fn turns(text: &str) -> Result<Turns> {
        Turns::of(&Nest::parse(text.lines()), &product(), "test")
    }

    #[test]
    fn inner_turns_follow_from_the_multiply_adds() {
        let inner = "v_mac_f32 v0, v1, v2\n".repeat(32);
        let text = format!(".L0:\n.L1:\n{inner}s_cbranch_scc0 .L1\ns_cbranch_scc0 .L0\ns_endpgm");
        let turns = turns(&text).unwrap();
        assert_eq!(turns, Turns { main: 0, steps: 1.0, inner: vec![0, 4] });
    }

    #[test]
    fn several_steps_may_be_written_out() {
        let body = "v_mac_f32 v0, v1, v2\n".repeat(256);
        let turns = turns(&format!(".L0:\n{body}s_cbranch_scc0 .L0\ns_endpgm")).unwrap();
        assert_eq!((turns.main, turns.steps), (0, 2.0));
    }

    #[test]
    fn copies_have_turns_of_their_own() {
        // Sixteen bytes a work-item and step, four bytes a turn.
        let body = "v_mac_f32 v0, v1, v2\n".repeat(128);
        let copy = ".L1:\nflat_load_dword v0, v[1:2]\ns_cbranch_scc0 .L1\n";
        let turns = turns(&format!(".L0:\n{copy}{body}s_cbranch_scc0 .L0\ns_endpgm")).unwrap();
        assert_eq!(turns.inner, [0, 4]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |result: Result<Turns>| result.unwrap_err().to_string();
        assert!(message(turns("s_endpgm")).contains("no loop has multiply-adds"));
        let few = "v_mac_f32 v0, v1, v2\n".repeat(16);
        let few = format!(".L0:\n{few}s_cbranch_scc0 .L0\ns_endpgm");
        assert!(message(turns(&few)).contains("fewer multiply-adds than a step"));
        let nest = Nest::parse(few.lines());
        let wrong = TiledProduct { rows: 8, ..product() };
        assert!(
            message(Turns::of(&nest, &wrong, "test")).contains("accumulators of all work-items")
        );
        let wrong = TiledProduct { n: 0, ..product() };
        assert!(message(Turns::of(&nest, &wrong, "test")).contains("at least one"));
    }
}
