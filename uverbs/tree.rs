// SPDX-License-Identifier: GPL-2.0

//! Building the uverbs API of a device: the definitions of ib_uverbs and of the driver, without those that the device does not
//! support.
//!
//! A driver may add object classes, methods, and attributes of existing methods. An object class or a command may have conditions
//! that the device must meet. A method with a mandatory object of a class that is removed is removed too.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use core::pin::Pin;

use kernel::prelude::*;
use rdma::{
    core::{device::Registered, Device},
    MaySleep,
};
use rdma_uverbs::{
    api::{Api, Attr, Method, Parts, WriteTable},
    definition::{
        Definitions, Entry, Kind, MethodTable, ObjectTable, ObjectType, ObjectUse, Scope,
        WriteMethod,
    },
    table::Definition,
};

/// The definitions of ib_uverbs.
static DEFINITIONS: [Definition; 3] = [
    Definition::chain(&crate::objects::DEFINITIONS),
    Definition::chain(crate::commands::DEFINITIONS),
    Definition::END,
];

/// Builds the API of a device.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL`, `EEXIST`, `EOVERFLOW` for tables of a driver that are inconsistent, which is logged.
pub(crate) fn build(device: &Registered, sleep: &MaySleep) -> Result<Pin<KBox<Api>>> {
    let mut tree = Tree::new(device);
    let api = tree
        .merge(Definitions::of(&DEFINITIONS, device), sleep)
        .and_then(|()| {
            tree.of_driver = true;
            tree.merge(Definitions::of_driver(device), sleep)
        })
        .and_then(|()| tree.finish(sleep));
    if let Err(error) = api.as_ref() {
        if *error != ENOMEM {
            dev_err!(
                device.dev(),
                "the driver's description of its commands is not valid ({})\n",
                error.to_errno()
            );
        }
    }
    api
}

/// An object class.
struct Class<'a> {
    id: u16,
    object_type: Option<ObjectType<'a>>,
    is_disabled: bool,
}

/// A write command, and its object class.
struct Command {
    object: u16,
    method: WriteMethod,
    is_disabled: bool,
}

/// The API while it is being built.
struct Tree<'a> {
    device: &'a Device,
    of_driver: bool,
    classes: KVec<Class<'a>>,
    methods: KVec<Method>,
    commands: KVec<Command>,
    /// The object class that the next entries belong to.
    object: Option<u16>,
    /// The index in `commands` that the next entries belong to.
    command: Option<usize>,
}

impl<'a> Tree<'a> {
    fn new(device: &'a Device) -> Self {
        Self {
            device,
            of_driver: false,
            classes: KVec::new(),
            methods: KVec::new(),
            commands: KVec::new(),
            object: None,
            command: None,
        }
    }

    fn merge(&mut self, list: Definitions<'a>, sleep: &MaySleep) -> Result {
        // An entry belongs to the object class or command before it in its own list.
        let outside = (self.object.take(), self.command.take());
        for entry in list {
            match entry {
                Entry::Chain(list) => self.merge(list, sleep)?,
                Entry::Object(table) => self.merge_object(table)?,
                Entry::ObjectStart(id) => {
                    self.class(id)?;
                    self.object = Some(id);
                }
                Entry::Write(method) => self.merge_command(method)?,
                Entry::Needs(scope, need) => {
                    if !need.is_met(sleep)? {
                        self.disable(scope)?;
                    }
                }
                Entry::Invalid => return Err(EINVAL),
            }
        }
        (self.object, self.command) = outside;
        Ok(())
    }

    fn class(&mut self, id: u16) -> Result<&mut Class<'a>> {
        let known = self.classes.iter().position(|class| class.id == id);
        let nth = known.unwrap_or(self.classes.len());
        if known.is_none() {
            let class = Class {
                id,
                object_type: None,
                is_disabled: false,
            };
            self.classes.push(class, GFP_KERNEL)?;
        }
        self.classes.get_mut(nth).ok_or(EINVAL)
    }

    fn merge_object(&mut self, table: ObjectTable<'a>) -> Result {
        let id = table.id();
        self.object = Some(id);
        let of_driver = self.of_driver;
        let class = self.class(id)?;
        if let Some(object_type) = table.object_type() {
            let is_known = object_type.is_idr() || object_type.is_fd();
            if class.object_type.is_some() || (of_driver && !is_known) {
                return Err(EINVAL);
            }
            class.object_type = Some(object_type);
        }
        table
            .methods()
            .filter(|method| method.has_attrs())
            .try_for_each(|method| self.merge_method(id, method))
    }

    fn merge_method(&mut self, object: u16, table: MethodTable<'_>) -> Result {
        let is_it = |method: &Method| method.is(object, table.id());
        let known = self.methods.iter().position(is_it);
        let nth = known.unwrap_or(self.methods.len());
        // A new method has a handler; a table that adds attributes to an existing method has none.
        if known.is_some() == table.handler().is_some() {
            return Err(EINVAL);
        }
        if known.is_none() {
            let method = Method::new(object, table.id(), table.handler(), self.of_driver);
            self.methods.push(method, GFP_KERNEL)?;
        }
        let method = self.methods.get_mut(nth).ok_or(EINVAL)?;
        table
            .attrs()
            .try_for_each(|attr| method.add_attr(attr, self.of_driver))
    }

    fn merge_command(&mut self, method: WriteMethod) -> Result {
        let object = self.object.ok_or(EINVAL)?;
        let known = self.commands.iter().position(|command| {
            let other = &command.method;
            command.object == object && (other.number, other.is_ex) == (method.number, method.is_ex)
        });
        let command = Command {
            object,
            method,
            is_disabled: !method.is_offered(self.device),
        };
        self.command = Some(known.unwrap_or(self.commands.len()));
        match known.and_then(|nth| self.commands.get_mut(nth)) {
            Some(place) => *place = command,
            None => self.commands.push(command, GFP_KERNEL)?,
        }
        Ok(())
    }

    fn disable(&mut self, scope: Scope) -> Result {
        match scope {
            Scope::Object => {
                let object = self.object.ok_or(EINVAL)?;
                self.class(object)?.is_disabled = true;
            }
            Scope::Method => {
                let command = self.command.and_then(|nth| self.commands.get_mut(nth));
                command.ok_or(EINVAL)?.is_disabled = true;
            }
        }
        Ok(())
    }

    /// Removes what the device does not support, and builds the API of the rest.
    fn finish(mut self, sleep: &MaySleep) -> Result<Pin<KBox<Api>>> {
        self.classes.retain(|class| !class.is_disabled);
        let classes = &self.classes;
        let is_there = |id: u16| classes.iter().any(|class| class.id == id);
        let is_usable = |method: &Method, attr: &Attr| {
            let class = match &attr.kind {
                Kind::Idr(object) | Kind::Fd(object) | Kind::Idrs(object, _) => object.class,
                _ => return true,
            };
            !method.is_mandatory(attr) || class == ObjectUse::ANY || is_there(class)
        };
        self.methods.retain(|method| {
            is_there(method.object()) && method.attrs().iter().all(|attr| is_usable(method, attr))
        });
        self.commands
            .retain(|command| !command.is_disabled && is_there(command.object));
        let mut ids = KVec::with_capacity(classes.len(), GFP_KERNEL)?;
        for class in classes {
            ids.push((class.id, class.object_type), GFP_KERNEL)?;
        }
        let write = |is_ex: bool| {
            let commands = self.commands.iter().map(|command| &command.method);
            WriteTable::new(commands.filter(move |method| method.is_ex == is_ex))
        };
        let (write, write_ex) = (write(false)?, write(true)?);
        let parts = Parts {
            driver_id: self.device.driver_id(),
            classes: ids,
            methods: self.methods,
            write,
            write_ex,
        };
        Api::new(parts, sleep)
    }
}

#[kernel::prelude::kunit_tests(ib_uverbs_attributes)]
mod tests {
    use rdma_uverbs::api::attr_index;

    const DRIVER: u16 = 1 << 12;

    #[test]
    fn the_core_and_the_driver_take_turns() {
        for number in 0..8 {
            assert_eq!(attr_index(number), Some(number as u8 * 2));
            assert_eq!(attr_index(DRIVER | number), Some(number as u8 * 2 + 1));
        }
    }

    #[test]
    fn no_two_numbers_have_a_place() {
        let mut taken = 0u64;
        for id in 0..=u16::MAX {
            if let Some(index) = attr_index(id) {
                assert!(index < 64);
                assert_eq!(taken & 1u64 << index, 0);
                taken |= 1u64 << index;
            }
        }
        assert_eq!(taken.count_ones(), 63);
    }
}
