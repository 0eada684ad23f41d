//! polaris-ops
