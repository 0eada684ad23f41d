//! Search spaces: named parameters, constraints, and all valid points.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Error, Result};

/// A parameter and the values it may have.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name, as in the kernel's source.
    pub name: &'static str,
    /// Its values.
    pub values: Vec<i64>,
}

/// A condition on the values of some parameters, in the order of their names.
type Condition = Box<dyn Fn(&[i64]) -> bool + Send + Sync>;

struct Constraint {
    about: &'static str,
    /// Places of the parameters it asks about.
    places: Vec<usize>,
    holds: Condition,
}

/// Parameters and constraints.
pub struct Space {
    /// Whose it is, for messages.
    what: String,
    parameters: Vec<Parameter>,
    constraints: Vec<Constraint>,
}

impl Space {
    /// A space without parameters.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), parameters: Vec::new(), constraints: Vec::new() }
    }

    /// One parameter more.
    #[must_use]
    pub fn parameter(mut self, name: &'static str, values: impl IntoIterator<Item = i64>) -> Self {
        self.parameters.push(Parameter { name, values: values.into_iter().collect() });
        self
    }

    /// One constraint more, on parameters that are there.
    ///
    /// # Panics
    /// If there is no such parameter: a mistake in the declaration.
    #[must_use]
    pub fn constraint(
        mut self,
        about: &'static str,
        names: &[&'static str],
        holds: impl Fn(&[i64]) -> bool + Send + Sync + 'static,
    ) -> Self {
        let place = |name: &&str| {
            let found = self.parameters.iter().position(|parameter| parameter.name == *name);
            found.expect("a constraint should be on parameters that were declared before it")
        };
        let places = names.iter().map(place).collect();
        self.constraints.push(Constraint { about, places, holds: Box::new(holds) });
        self
    }

    /// All points that satisfy all constraints. Values are given to one parameter after another,
    /// and each constraint is asked as soon as its last parameter has one: what it excludes is
    /// never built upon.
    ///
    /// # Errors
    /// If there is no such point.
    pub fn points(&self) -> Result<Points> {
        let count = self.parameters.len();
        // The constraints that become decidable with each parameter.
        let mut decidable: Vec<Vec<&Constraint>> = vec![Vec::new(); count.max(1)];
        for constraint in &self.constraints {
            let last = constraint.places.iter().copied().max().unwrap_or(0);
            decidable[last].push(constraint);
        }
        let mut walk = Walk {
            space: self,
            decidable,
            chosen: vec![0; count],
            asked: Vec::new(),
            values: Vec::new(),
            excluded_by: BTreeMap::new(),
        };
        walk.give_values_from(0);
        if walk.values.is_empty() {
            let mut by: Vec<_> = walk.excluded_by.into_iter().collect();
            by.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            let by: Vec<&str> = by.into_iter().map(|(about, _)| about).collect();
            let excluded = if by.is_empty() { "it has no values".into() } else { by.join("; ") };
            return Err(Error::EmptySpace { what: self.what.clone(), excluded });
        }
        let names = self.parameters.iter().map(|parameter| parameter.name).collect();
        let levels = self.parameters.iter().map(|parameter| parameter.values.clone()).collect();
        Ok(Points { names, levels, values: walk.values })
    }
}

struct Walk<'a> {
    space: &'a Space,
    decidable: Vec<Vec<&'a Constraint>>,
    chosen: Vec<i64>,
    asked: Vec<i64>,
    values: Vec<i64>,
    /// How many values each constraint ruled out.
    excluded_by: BTreeMap<&'static str, usize>,
}

impl Walk<'_> {
    fn give_values_from(&mut self, place: usize) {
        if place == self.space.parameters.len() {
            self.values.extend_from_slice(&self.chosen);
            return;
        }
        for index in 0..self.space.parameters[place].values.len() {
            self.chosen[place] = self.space.parameters[place].values[index];
            let mut violated = None;
            for constraint in &self.decidable[place] {
                self.asked.clear();
                self.asked.extend(constraint.places.iter().map(|&place| self.chosen[place]));
                if !(constraint.holds)(&self.asked) {
                    violated = Some(constraint.about);
                    break;
                }
            }
            match violated {
                Some(about) => *self.excluded_by.entry(about).or_default() += 1,
                None => self.give_values_from(place + 1),
            }
        }
    }
}

/// The valid points of a space, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Points {
    names: Vec<&'static str>,
    /// All values of each parameter.
    levels: Vec<Vec<i64>>,
    /// Point after point.
    values: Vec<i64>,
}

impl Points {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.names.len().max(1)
    }

    /// Whether there is none, which [`Space::points`] never gives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of the parameters.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// All values of a parameter, valid or not.
    pub fn levels(&self, parameter: usize) -> &[i64] {
        &self.levels[parameter]
    }

    /// The values of a point, in the order of the names.
    pub fn values(&self, point: usize) -> &[i64] {
        let width = self.names.len();
        &self.values[point * width..][..width]
    }

    /// A point as names and values.
    pub fn named(&self, point: usize) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        self.names.iter().copied().zip(self.values(point).iter().copied())
    }

    /// The value of one parameter of a point.
    pub fn value(&self, point: usize, name: &str) -> Option<i64> {
        self.names.iter().position(|known| *known == name).map(|at| self.values(point)[at])
    }

    /// The point with these values, if it is valid.
    pub fn find(&self, values: &[i64]) -> Option<usize> {
        (0..self.len()).find(|&point| self.values(point) == values)
    }

    /// The point with these values by name, if all are there and it is valid.
    pub fn find_named(&self, value: impl Fn(&str) -> Option<i64>) -> Option<usize> {
        let values: Option<Vec<i64>> = self.names.iter().map(|name| value(name)).collect();
        self.find(&values?)
    }

    /// In how many parameters two points differ.
    pub fn distance(&self, a: usize, b: usize) -> usize {
        let (a, b) = (self.values(a), self.values(b));
        a.iter().zip(b).filter(|(a, b)| a != b).count()
    }

    /// A point as text.
    pub fn text(&self, point: usize) -> String {
        let parts: Vec<String> =
            self.named(point).map(|(name, value)| format!("{name}={value}")).collect();
        parts.join(" ")
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constraints: Vec<&str> = self.constraints.iter().map(|c| c.about).collect();
        f.debug_struct("Space")
            .field("what", &self.what)
            .field("parameters", &self.parameters)
            .field("constraints", &constraints)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn sizes() -> Space {
        Space::new("a test")
            .parameter("tile", [16, 32, 64])
            .parameter("threads", [8, 16, 24])
            .parameter("unroll", [1, 2])
            .constraint("threads divide the tile", &["tile", "threads"], |v| v[0] % v[1] == 0)
    }

    #[test]
    fn only_and_all_valid_points_are_there() {
        let points = sizes().points().unwrap();
        assert_eq!(points.len(), 12);
        assert_eq!(points.values(0), [16, 8, 1]);
        assert_eq!(points.text(1), "tile=16 threads=8 unroll=2");
        assert_eq!(points.find(&[64, 16, 2]), Some(11));
        assert_eq!(points.find(&[64, 24, 2]), None);
        assert_eq!(points.distance(0, 11), 3);
    }

    #[test]
    fn what_is_excluded_is_not_built_upon() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let mut space = Space::new("a test").parameter("first", 0..100);
        for name in ["b", "c", "d", "e"] {
            space = space.parameter(name, 0..100);
        }
        let points = space
            .constraint("first is 7", &["first"], |v| v[0] == 7)
            .constraint("sum", &["first", "b"], |v| v[1] == v[0])
            .constraint("c", &["c"], |v| v[0] == 1)
            .constraint("d", &["d"], |v| v[0] == 1)
            .constraint("e", &["e", "first"], move |v| {
                counter.fetch_add(1, Ordering::Relaxed);
                v[0] == v[1]
            })
            .points()
            .unwrap();
        // Of ten billion combinations the last constraint sees a hundred.
        assert_eq!((points.len(), asked.load(Ordering::Relaxed)), (1, 100));
    }

    #[test]
    fn an_empty_space_says_what_emptied_it() {
        let space = sizes().constraint("none is left", &["unroll"], |v| v[0] > 2);
        let error = space.points().unwrap_err().to_string();
        assert!(error.contains("a test") && error.contains("none is left"), "{error}");
    }
}
