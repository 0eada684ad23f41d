//! The tests of polaris-sample that need nothing but the library.

mod distribution;
mod grammars;
mod history;
mod hostile;
mod random;
mod random_schemas;
mod recogniser;
mod samplers;
mod schemas;
mod stops;
mod validator;
mod walks;

use random::Random;
