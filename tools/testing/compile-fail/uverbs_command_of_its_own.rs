// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: this function takes 2 arguments but 1 argument was supplied

//! A command on a file that may be closed at any time, with its context.

use kernel::prelude::*;
use rdma::core::command::UverbsFile;
use rdma_uverbs::life::OwnCommand;

/// Creates it.
pub fn command(file: &UverbsFile) -> Result<OwnCommand<'_>> {
    OwnCommand::new(file)
}
