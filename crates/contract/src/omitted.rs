//! Which fields are left out of serialized forms.

/// Returns whether a value is its type's default, for serde's `skip_serializing_if`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
