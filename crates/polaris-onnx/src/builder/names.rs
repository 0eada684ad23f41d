//! Names of values: those that callers choose, and those that are made up meanwhile.

use super::{GraphBuilder, foreign};
use crate::{Type, Value, ValueId};

impl GraphBuilder {
    /// Names a value.
    pub fn rename(&mut self, id: ValueId, name: &str) {
        self.make_way(name);
        let Some(slot) = self.graph.values.get_mut(id.index()) else {
            return self.fail(foreign(id));
        };
        if self.names.get(&slot.name) == Some(&id) {
            self.names.remove(&slot.name);
        }
        name.clone_into(&mut slot.name);
        self.names.insert(name.to_owned(), id);
        self.generated.remove(&id);
    }

    pub(super) fn named(
        &mut self,
        name: &str,
        ty: Option<Type>,
        constant: Option<Value>,
    ) -> ValueId {
        self.make_way(name);
        let id = self.graph.add_value(name.to_owned(), ty, constant);
        self.names.insert(name.to_owned(), id);
        id
    }

    pub(super) fn generated(
        &mut self,
        name: String,
        ty: Option<Type>,
        constant: Option<Value>,
    ) -> ValueId {
        let name = self.free(name);
        let id = self.graph.add_value(name.clone(), ty, constant);
        self.names.insert(name, id);
        self.generated.insert(id);
        id
    }

    /// A generated name gives way to one that the caller chose.
    fn make_way(&mut self, name: &str) {
        let Some(&id) = self.names.get(name).filter(|id| self.generated.contains(id)) else {
            return;
        };
        let other = self.free(name.to_owned());
        self.graph.values[id.index()].name.clone_from(&other);
        self.names.insert(other, id);
    }

    /// The name, with a number behind it where a value has it already.
    fn free(&self, name: String) -> String {
        let mut free = name.clone();
        let mut number = 0;
        while self.names.contains_key(&free) {
            number += 1;
            free = format!("{name}_{number}");
        }
        free
    }
}
