//! Numbers as stored in files: enumerations by value, floats compared by their bits.

/// Declares an enumeration that is a number on the wire.
macro_rules! wire_enum {
    ($( $(#[$meta:meta])* $name:ident : $repr:ident, $what:literal { $( $(#[$vmeta:meta])* $variant:ident = $value:literal ),* $(,)? } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($repr)]
        pub enum $name { $( $(#[$vmeta])* $variant = $value ),* }

        impl $name {
            /// Every known value.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),*];

            /// The value with this number, if it is known.
            #[must_use]
            pub fn from_wire(value: $repr) -> Option<Self> {
                match value { $( $value => Some(Self::$variant), )* _ => None }
            }

            /// The number on the wire.
            #[must_use]
            pub fn to_wire(self) -> $repr {
                self as $repr
            }

            pub(crate) fn read(value: $repr, section: &$crate::error::Section, item: $crate::error::Item) -> $crate::error::Result<Self> {
                Self::from_wire(value).ok_or_else(|| $crate::error::Error::new(
                    $crate::error::Location { section: section.clone(), item },
                    $crate::error::Problem::Unknown { what: $what, value: i64::from(value) },
                ))
            }
        }
    )*};
}
pub(crate) use wire_enum;

/// A 64-bit float that is equal to another when their bits are, so that a program with a NaN in it equals itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Float(pub f64);

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl From<f64> for Float {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

/// Rounds up to a multiple of `alignment`, a power of two.
pub(crate) fn align_up(value: u64, alignment: u64) -> Option<u64> {
    debug_assert!(alignment.is_power_of_two(), "alignments are powers of two");
    value.checked_add(alignment - 1).map(|v| v & !(alignment - 1))
}
