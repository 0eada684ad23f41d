//! The cases, and the choice of kernels and cases of a check.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use polaris_ops::FAMILIES;
use polaris_ops::suite::{Case, CaseParameters, kernel_of};

/// How much is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A few cases of what is used most, in a few seconds.
    Quick,
    /// Every kernel once, and every variant of every suite: a program built for each.
    #[default]
    Standard,
    /// Every kernel in every kind of layout.
    Full,
}

/// What is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// How much of each operation.
    pub level: Level,
    /// Which operations, by the names of their families; all, if there is none.
    pub operations: Vec<String>,
}

impl Scope {
    /// Whether an operation is checked.
    pub fn contains(&self, operation: &str) -> bool {
        self.operations.is_empty() || self.operations.iter().any(|name| name == operation)
    }

    /// Whether it is less than every kernel once.
    pub fn is_partial(&self) -> bool {
        self.level == Level::Quick || !self.operations.is_empty()
    }
}

impl From<Level> for Scope {
    fn from(level: Level) -> Self {
        Self { level, operations: Vec::new() }
    }
}

/// One kernel in one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The case, by its place in `cases`.
    pub case: usize,
    /// The kernel's name.
    pub kernel: String,
}

/// The kernels that could run a case on a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listed {
    /// Their names, most preferred first.
    pub kernels: Vec<String>,
    /// Whether there is anything to compute; otherwise no kernel is launched.
    pub computes: bool,
}

/// A case of a suite.
#[derive(Debug)]
pub(crate) struct Planned {
    pub suite: usize,
    variant: usize,
    layout: usize,
    parameters: CaseParameters,
}

impl Planned {
    pub fn case(&self) -> Case {
        (FAMILIES[self.suite].case)(self.variant, &self.parameters)
    }

    /// The place of its variant in the suite.
    fn variant(&self) -> (usize, usize) {
        (self.suite, self.variant)
    }

    fn is_quick(&self) -> bool {
        match self.layout {
            FIRST_LAYOUT | TRANSPOSED_LAYOUT => (self.variant + self.layout).is_multiple_of(11),
            // The variants of the first layout: most of their programs are there already.
            LONG_LAYOUT => self.variant.is_multiple_of(11),
            _ => false,
        }
    }

    fn is_full(&self) -> bool {
        (FAMILIES[self.suite].takes)(self.variant, self.layout)
    }

    /// Where a standard check looks for kernels first. The layouts take turns from variant to
    /// variant, so that each kind of kernel meets all of them; a single element comes last, since
    /// it shows little.
    fn rank(&self) -> (bool, usize, bool) {
        let is_single = self.layout == SINGLE_LAYOUT;
        let turn = (self.layout + LAYOUTS - self.variant % LAYOUTS) % LAYOUTS;
        (is_single, turn, !(FAMILIES[self.suite].is_essential)(self.variant))
    }
}

/// Places in `CaseParameters::fixed`: a dense one with special values, a single element, one that
/// is long enough to be reduced in segments, and a transposed one.
const FIRST_LAYOUT: usize = 0;
const SINGLE_LAYOUT: usize = 4;
const LONG_LAYOUT: usize = 5;
const TRANSPOSED_LAYOUT: usize = 7;
const LAYOUTS: usize = 9;

/// Every case of any level, in the same order always: layout by layout.
pub(crate) fn cases() -> Vec<Planned> {
    let mut cases = Vec::new();
    for (layout, parameters) in CaseParameters::fixed().into_iter().enumerate() {
        for (suite, description) in FAMILIES.iter().enumerate() {
            for variant in 0..(description.variants)() {
                let planned = Planned { suite, variant, layout, parameters: parameters.clone() };
                if planned.is_full() || planned.is_quick() {
                    cases.push(planned);
                }
            }
        }
    }
    cases
}

/// What a check runs, in order.
pub(crate) fn select(
    level: Level,
    cases: &[Planned],
    listed: &BTreeMap<usize, Listed>,
) -> Vec<Unit> {
    let unit = |case: usize, kernel: &String| Unit { case, kernel: kernel.clone() };
    let all_of = |wanted: fn(&Planned) -> bool, most: usize| -> Vec<Unit> {
        let wanted = listed.iter().filter(|&(&case, _)| wanted(&cases[case]));
        wanted
            .flat_map(|(&case, listed)| {
                listed.kernels.iter().take(most).map(move |k| unit(case, k))
            })
            .collect()
    };
    match level {
        // The kernel that is chosen and what would take its place.
        Level::Quick => all_of(Planned::is_quick, 2),
        Level::Standard => cover(cases, listed),
        Level::Full => all_of(Planned::is_full, usize::MAX),
    }
}

/// Each kernel in the first case that it could run, and each variant without such a case once, with
/// the kernel that is chosen. A kernel of one case more would be a program more to build.
fn cover(cases: &[Planned], listed: &BTreeMap<usize, Listed>) -> Vec<Unit> {
    let mut order: Vec<usize> = listed
        .iter()
        .filter(|&(&case, listed)| listed.computes && cases[case].is_full())
        .map(|(&case, _)| case)
        .collect();
    order.sort_by_key(|&case| cases[case].rank());
    let (mut kernels, mut variants) = (BTreeSet::new(), BTreeSet::new());
    let mut units = vec![Vec::new(); FAMILIES.len()];
    for &case in &order {
        let planned = &cases[case];
        for name in &listed[&case].kernels {
            if kernels.insert((planned.suite, kernel_of(name))) {
                variants.insert(planned.variant());
                units[planned.suite].push(Unit { case, kernel: name.clone() });
            }
        }
    }
    for &case in &order {
        if variants.insert(cases[case].variant()) {
            let kernel = listed[&case].kernels[0].clone();
            units[cases[case].suite].push(Unit { case, kernel });
        }
    }
    in_turn(units)
}

/// The suites take turns, so that a check that is cut short has seen a bit of each.
fn in_turn(units: Vec<Vec<Unit>>) -> Vec<Unit> {
    let mut suites: Vec<_> = units.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(suites.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}
