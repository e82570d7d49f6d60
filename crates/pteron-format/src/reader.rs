//! Helpers for all readers of tables.

use pteron_schema::{Follow, ForwardsUOffset, Vector};

use crate::budget::Budget;
use crate::error::{Error, Item, Location, Problem, Result, Section};

/// A vector of tables of the schema.
pub(crate) type Tables<'a, T> = Option<Vector<'a, ForwardsUOffset<T>>>;

/// Reads lists, tables and strings of one part of a file, each charged to the budget before it is copied.
pub(crate) struct Reader<'b> {
    pub(crate) section: Section,
    pub(crate) budget: &'b mut Budget,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(section: Section, budget: &'b mut Budget) -> Self {
        Self { section, budget }
    }

    pub(crate) fn fail<T>(&self, item: Item, problem: Problem) -> Result<T> {
        Err(Error::new(Location { section: self.section.clone(), item }, problem))
    }

    pub(crate) fn missing<T>(&self, what: &'static str) -> Result<T> {
        self.fail(Item::Whole, Problem::Missing { what })
    }

    #[track_caller]
    pub(crate) fn tables<'a, T, R>(
        &mut self,
        tables: Tables<'a, T>,
        read: impl FnMut(&mut Self, T::Inner) -> Result<R>,
    ) -> Result<Vec<R>>
    where
        T: Follow<'a> + 'a,
    {
        Ok(self.optional_tables(tables, read)?.unwrap_or_default())
    }

    #[track_caller]
    pub(crate) fn optional_tables<'a, T, R>(
        &mut self,
        tables: Tables<'a, T>,
        mut read: impl FnMut(&mut Self, T::Inner) -> Result<R>,
    ) -> Result<Option<Vec<R>>>
    where
        T: Follow<'a> + 'a,
    {
        let Some(tables) = tables else { return Ok(None) };
        let mut list = self.budget.vec(&self.section, tables.len())?;
        for table in tables {
            list.push(read(self, table)?);
        }
        Ok(Some(list))
    }

    /// Reads a list of numbers and converts each.
    #[track_caller]
    pub(crate) fn list<'a, T, R>(
        &mut self,
        items: Option<Vector<'a, T>>,
        mut read: impl FnMut(&Self, T) -> Result<R>,
    ) -> Result<Vec<R>>
    where
        T: Follow<'a, Inner = T> + 'a,
    {
        let Some(items) = items else { return Ok(Vec::new()) };
        let mut list = self.budget.vec(&self.section, items.len())?;
        for item in items {
            list.push(read(self, item)?);
        }
        Ok(list)
    }

    #[track_caller]
    pub(crate) fn text(&mut self, text: Option<&str>, what: &'static str) -> Result<String> {
        match text {
            Some(text) => self.budget.text(&self.section, text),
            None => self.missing(what),
        }
    }

    #[track_caller]
    pub(crate) fn text_or_empty(&mut self, text: Option<&str>) -> Result<String> {
        self.budget.text(&self.section, text.unwrap_or_default())
    }

    /// An index that the file stores signed.
    pub(crate) fn index(&self, what: &'static str, value: i64) -> Result<u32> {
        match u32::try_from(value) {
            Ok(index) => Ok(index),
            Err(_) => self.fail(Item::Whole, Problem::Negative { what, value }),
        }
    }
}
