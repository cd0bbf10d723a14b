//! The networks Bardo knows: names, aliases, ids, address books.
