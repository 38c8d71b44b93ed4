//! persephone
