//! Generates a verifier, a reader and a writer for each declared table and union.
//!
//! One declaration serves all three, so a field's slot and type are written once.

/// Declares flatbuffer tables. A field is `slot name: kind`, where kind is one of
///
/// | kind | on the wire | read as |
/// |---|---|---|
/// | `scalar T = default` | a number in the table | `T` |
/// | `text` | offset to a string | `Option<&str>` |
/// | `list T` | offset to a vector of numbers | `Option<Vector<T>>` |
/// | `table T` | offset to a table | `Option<T>` |
/// | `tables T` | offset to a vector of tables | `Option<Vector<ForwardsUOffset<T>>>` |
/// | `union U` | a tag in `slot`, an offset in `slot + 1` | `U` |
macro_rules! tables {
    ($( $(#[$meta:meta])* $name:ident / $args:ident { $( $slot:literal $field:ident : $kind:ident $ty:ident $(= $default:literal)? ),* $(,)? } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(::flatbuffers::Table<'a>);

        impl<'a> ::flatbuffers::Follow<'a> for $name<'a> {
            type Inner = $name<'a>;
            // SAFETY: the caller promises that a table of this type, already verified, starts at `loc`.
            unsafe fn follow(buf: &'a [u8], loc: usize) -> Self {
                // SAFETY: the promise is passed on unchanged.
                $name(unsafe { ::flatbuffers::Table::new(buf, loc) })
            }
        }

        impl ::flatbuffers::Verifiable for $name<'_> {
            fn run_verifier(v: &mut ::flatbuffers::Verifier<'_, '_>, pos: usize) -> Result<(), ::flatbuffers::InvalidFlatbuffer> {
                v.is_aligned::<u32>(pos)?;
                let table = v.visit_table(pos)?;
                $( let table = $crate::macros::field!(@verify $kind $ty, table, $slot, $field); )*
                table.finish();
                Ok(())
            }
        }

        impl<'a> $name<'a> {
            /// Where the table starts, in bytes from the start of the flatbuffer.
            #[must_use]
            pub fn position(&self) -> usize {
                self.0.loc()
            }

            $( $crate::macros::field!(@read $kind $ty, $slot, $field $(, $default)?); )*
        }

        #[doc = concat!("What a [`", stringify!($name), "`] is written from.")]
        #[derive(Clone, Copy)]
        #[allow(missing_docs, missing_debug_implementations, reason = "the fields are those of the table")]
        pub struct $args<'b> {
            $( pub $field: $crate::macros::field!(@type $kind $ty), )*
            #[doc(hidden)]
            pub buffer: ::core::marker::PhantomData<&'b ()>,
        }

        impl Default for $args<'_> {
            fn default() -> Self {
                Self { $( $field: $crate::macros::field!(@default $kind $ty $(, $default)?), )* buffer: ::core::marker::PhantomData }
            }
        }

        impl<'b> $args<'b> {
            /// Writes the table. Everything it points to must be written already.
            pub fn write(self, b: &mut $crate::Builder<'b>) -> ::flatbuffers::WIPOffset<$name<'b>> {
                let start = b.start_table();
                $( $crate::macros::field!(@write $kind $ty, b, self, $slot, $field $(, $default)?); )*
                let end = b.end_table(start);
                ::flatbuffers::WIPOffset::new(end.value())
            }
        }
    )*};
}

/// Declares a flatbuffer union: each variant is a table declared with [`tables!`].
macro_rules! unions {
    ($( $(#[$meta:meta])* $name:ident { $( $tag:literal $variant:ident ),* $(,)? } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the variants are the tables of the same names")]
        pub enum $name<'a> {
            /// The field is absent.
            Absent,
            /// A tag this schema does not know; the value was not verified.
            Unknown(u8),
            $( $variant($variant<'a>), )*
        }

        impl<'a> $name<'a> {
            pub(crate) fn verify(tag: u8, v: &mut ::flatbuffers::Verifier<'_, '_>, pos: usize) -> Result<(), ::flatbuffers::InvalidFlatbuffer> {
                match tag {
                    $( $tag => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<$variant<'_>>>(stringify!($variant), pos), )*
                    _ => Ok(()),
                }
            }

            /// # Safety
            /// `table` holds a verified union whose tag is in `slot` and whose value is in the next slot.
            pub(crate) unsafe fn read(table: &::flatbuffers::Table<'a>, slot: u16) -> Self {
                // SAFETY: the caller promises that the tag was verified.
                let tag = unsafe { table.get::<u8>($crate::macros::voffset(slot), None) }.unwrap_or(0);
                match tag {
                    0 => Self::Absent,
                    // SAFETY: for a tag it knows, `verify` has checked this variant's table at the offset.
                    $( $tag => unsafe { table.get::<::flatbuffers::ForwardsUOffset<$variant<'_>>>($crate::macros::voffset(slot + 1), None) }
                        .map_or(Self::Absent, Self::$variant), )*
                    // `verify` checks no value for a tag it does not know, so the offset is not followed.
                    unknown => Self::Unknown(unknown),
                }
            }
        }

        $( impl $variant<'_> {
            #[doc = concat!("This table's tag in [`", stringify!($name), "`].")]
            pub const TAG: u8 = $tag;
        } )*
    )*};
}

/// Declares a flatbuffer union in which several tags have tables of one type: `Table: tag | tag`.
macro_rules! shared_unions {
    ($( $(#[$meta:meta])* $name:ident { $( $table:ident : $( $tag:literal )|+ ),* $(,)? } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the variants are the tables of the same names, each with its tag")]
        pub enum $name<'a> {
            /// The field is absent.
            Absent,
            /// A tag this schema does not know; the value was not verified.
            Unknown(u8),
            $( $table(u8, $table<'a>), )*
        }

        impl<'a> $name<'a> {
            pub(crate) fn verify(tag: u8, v: &mut ::flatbuffers::Verifier<'_, '_>, pos: usize) -> Result<(), ::flatbuffers::InvalidFlatbuffer> {
                match tag {
                    $( $( $tag )|+ => v.verify_union_variant::<::flatbuffers::ForwardsUOffset<$table<'_>>>(stringify!($table), pos), )*
                    _ => Ok(()),
                }
            }

            /// # Safety
            /// `table` holds a verified union whose tag is in `slot` and whose value is in the next slot.
            pub(crate) unsafe fn read(table: &::flatbuffers::Table<'a>, slot: u16) -> Self {
                // SAFETY: the caller promises that the tag was verified.
                let tag = unsafe { table.get::<u8>($crate::macros::voffset(slot), None) }.unwrap_or(0);
                match tag {
                    0 => Self::Absent,
                    // SAFETY: for a tag it knows, `verify` has checked this table at the offset.
                    $( $( $tag )|+ => unsafe { table.get::<::flatbuffers::ForwardsUOffset<$table<'_>>>($crate::macros::voffset(slot + 1), None) }
                        .map_or(Self::Absent, |table| Self::$table(tag, table)), )*
                    // `verify` checks no value for a tag it does not know, so the offset is not followed.
                    unknown => Self::Unknown(unknown),
                }
            }
        }
    )*};
}

/// One field of [`tables!`]: its type when written, how it is verified, read and written.
macro_rules! field {
    (@type scalar $ty:ident) => { $ty };
    (@type text $ty:ident) => { Option<::flatbuffers::WIPOffset<&'b str>> };
    (@type list $ty:ident) => { Option<::flatbuffers::WIPOffset<::flatbuffers::Vector<'b, $ty>>> };
    (@type table $ty:ident) => { Option<::flatbuffers::WIPOffset<$ty<'b>>> };
    (@type tables $ty:ident) => { Option<::flatbuffers::WIPOffset<::flatbuffers::Vector<'b, ::flatbuffers::ForwardsUOffset<$ty<'b>>>>> };
    (@type union $ty:ident) => { Option<(u8, ::flatbuffers::WIPOffset<::flatbuffers::UnionWIPOffset>)> };

    (@default scalar $ty:ident, $default:literal) => { $default };
    (@default $kind:ident $ty:ident) => { None };

    (@verify scalar $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_field::<$ty>(stringify!($field), $crate::macros::voffset($slot), false)?
    };
    (@verify text $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_field::<::flatbuffers::ForwardsUOffset<&str>>(stringify!($field), $crate::macros::voffset($slot), false)?
    };
    (@verify list $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_field::<::flatbuffers::ForwardsUOffset<$crate::macros::List<'_, $ty>>>(stringify!($field), $crate::macros::voffset($slot), false)?
    };
    (@verify table $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_field::<::flatbuffers::ForwardsUOffset<$ty<'_>>>(stringify!($field), $crate::macros::voffset($slot), false)?
    };
    (@verify tables $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_field::<::flatbuffers::ForwardsUOffset<::flatbuffers::Vector<'_, ::flatbuffers::ForwardsUOffset<$ty<'_>>>>>(stringify!($field), $crate::macros::voffset($slot), false)?
    };
    (@verify union $ty:ident, $table:ident, $slot:literal, $field:ident) => {
        $table.visit_union::<u8, _>(
            concat!(stringify!($field), "_type"), $crate::macros::voffset($slot),
            stringify!($field), $crate::macros::voffset($slot + 1), false, $ty::verify)?
    };

    (@read scalar $ty:ident, $slot:literal, $field:ident, $default:literal) => {
        #[doc = concat!("Field `", stringify!($field), "`, `", stringify!($default), "` when absent.")]
        #[must_use]
        pub fn $field(&self) -> $ty {
            // SAFETY: the verifier has checked a `$ty` here, and only verified tables have a value of this type.
            unsafe { self.0.get::<$ty>($crate::macros::voffset($slot), None) }.unwrap_or($default)
        }
    };
    (@read text $ty:ident, $slot:literal, $field:ident) => {
        #[doc = concat!("Field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(&self) -> Option<&'a str> {
            // SAFETY: the verifier has checked a UTF-8 string here, and only verified tables have a value of this type.
            unsafe { self.0.get::<::flatbuffers::ForwardsUOffset<&str>>($crate::macros::voffset($slot), None) }
        }
    };
    (@read list $ty:ident, $slot:literal, $field:ident) => {
        #[doc = concat!("Field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(&self) -> Option<::flatbuffers::Vector<'a, $ty>> {
            // SAFETY: the verifier has checked such a vector here, and only verified tables have a value of this type.
            unsafe { self.0.get::<::flatbuffers::ForwardsUOffset<::flatbuffers::Vector<'_, $ty>>>($crate::macros::voffset($slot), None) }
        }
    };
    (@read table $ty:ident, $slot:literal, $field:ident) => {
        #[doc = concat!("Field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(&self) -> Option<$ty<'a>> {
            // SAFETY: the verifier has checked such a table here, and only verified tables have a value of this type.
            unsafe { self.0.get::<::flatbuffers::ForwardsUOffset<$ty<'_>>>($crate::macros::voffset($slot), None) }
        }
    };
    (@read tables $ty:ident, $slot:literal, $field:ident) => {
        #[doc = concat!("Field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(&self) -> Option<::flatbuffers::Vector<'a, ::flatbuffers::ForwardsUOffset<$ty<'a>>>> {
            // SAFETY: the verifier has checked such a vector here, and only verified tables have a value of this type.
            unsafe { self.0.get::<::flatbuffers::ForwardsUOffset<::flatbuffers::Vector<'_, ::flatbuffers::ForwardsUOffset<$ty<'_>>>>>($crate::macros::voffset($slot), None) }
        }
    };
    (@read union $ty:ident, $slot:literal, $field:ident) => {
        #[doc = concat!("Union field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(&self) -> $ty<'a> {
            // SAFETY: the verifier has checked a union here, and only verified tables have a value of this type.
            unsafe { $ty::read(&self.0, $slot) }
        }
    };

    (@write scalar f64, $b:ident, $self:ident, $slot:literal, $field:ident, $default:literal) => {
        // By their bits: a negative zero equals the default and is another number.
        if $self.$field.to_bits() != f64::to_bits($default) {
            $b.push_slot_always::<f64>($crate::macros::voffset($slot), $self.$field);
        }
    };
    (@write scalar f32, $b:ident, $self:ident, $slot:literal, $field:ident, $default:literal) => {
        // By their bits, as for f64.
        if $self.$field.to_bits() != f32::to_bits($default) {
            $b.push_slot_always::<f32>($crate::macros::voffset($slot), $self.$field);
        }
    };
    (@write scalar $ty:ident, $b:ident, $self:ident, $slot:literal, $field:ident, $default:literal) => {
        $b.push_slot::<$ty>($crate::macros::voffset($slot), $self.$field, $default);
    };
    (@write union $ty:ident, $b:ident, $self:ident, $slot:literal, $field:ident) => {
        if let Some((tag, value)) = $self.$field {
            $b.push_slot_always::<u8>($crate::macros::voffset($slot), tag);
            $b.push_slot_always($crate::macros::voffset($slot + 1), value);
        }
    };
    (@write $kind:ident $ty:ident, $b:ident, $self:ident, $slot:literal, $field:ident) => {
        if let Some(value) = $self.$field {
            $b.push_slot_always($crate::macros::voffset($slot), value);
        }
    };
}

/// Verifies a vector of numbers. The exporter's writer aligns the numbers, so an empty vector lies where its length happened
/// to fall: the verifier of the `flatbuffers` crate would reject it.
pub(crate) struct List<'a, T>(::core::marker::PhantomData<::flatbuffers::Vector<'a, T>>);

impl<'a, T> ::flatbuffers::Verifiable for List<'a, T>
where
    ::flatbuffers::Vector<'a, T>: ::flatbuffers::Verifiable,
{
    fn run_verifier(v: &mut ::flatbuffers::Verifier<'_, '_>, pos: usize) -> Result<(), ::flatbuffers::InvalidFlatbuffer> {
        match v.get_uoffset(pos)? {
            0 => Ok(()),
            _ => <::flatbuffers::Vector<'a, T> as ::flatbuffers::Verifiable>::run_verifier(v, pos),
        }
    }
}

/// The position of a slot in a vtable: two 16-bit sizes come first.
pub(crate) const fn voffset(slot: u16) -> ::flatbuffers::VOffsetT {
    4 + 2 * slot
}

pub(crate) use {field, shared_unions, tables, unions};
