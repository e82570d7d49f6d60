//! The engine as a backend.
