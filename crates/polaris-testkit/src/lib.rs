//! polaris-testkit
