//! polaris
