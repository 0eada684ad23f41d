//! The interpreter as its users meet it.

mod hostile_operands;
mod inferred_shapes;
mod little_memory;
mod written_files;
