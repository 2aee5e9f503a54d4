//! Bank numbers by role, and the color numbers of TintMalloc.
//!
//! TintMalloc (Pan and Mueller; Pan's thesis, chapter 3, eq. 1) numbers banks by node, channel, rank and bank. The formula
//! as printed, `((node*NN*NC + channel)*NR + rank)*NB + bank`, uses the wrong radix: with (NN, NC, NR, NB) = (4, 2, 2, 8) it
//! gives numbers up to 415 for 128 banks. The mixed-radix number that the text means has `node*NC`:
//! [`TintNumbering::color`] computes that one, [`TintNumbering::color_as_printed`] the other for comparison.
//!
//! A color of TintMalloc is one *bank*. A granule may touch several: on the Opteron 6128 the rank is bit 7, inside every
//! page. Hence a [bank class](crate::Palette) has a *set* of colors, and the conversion from a class to one color exists
//! only where the granule honors it.

use crate::file::Role;
use crate::gf2;
use crate::palette::Palette;
use crate::platform::Platform;
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::Serialize;

/// A bank, named by the roles of the bits that select it; a role without a function is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct BankRoles {
    /// NUMA node, numbered as the regions do.
    pub node: u32,
    /// Channel within the node.
    pub channel: u32,
    /// Half of a DDR5 channel.
    pub subchannel: u32,
    /// Module on the channel.
    pub dimm: u32,
    /// Rank of the module.
    pub rank: u32,
    /// Bank group of the rank.
    pub bank_group: u32,
    /// Bank of the group, or of the rank where there are no groups.
    pub bank: u32,
    /// Value of the functions of unknown role.
    pub unknown: u32,
}

impl BankRoles {
    fn of_role(&mut self, role: Role) -> &mut u32 {
        match role {
            Role::Node => &mut self.node,
            Role::Channel => &mut self.channel,
            Role::Subchannel => &mut self.subchannel,
            Role::Dimm => &mut self.dimm,
            Role::Rank => &mut self.rank,
            Role::BankGroup => &mut self.bank_group,
            Role::Bank => &mut self.bank,
            Role::Unknown => &mut self.unknown,
        }
    }
}

impl Platform {
    /// Names a raw bank number by roles; `None` at or above `banks()`.
    ///
    /// Node = node of the domain + value of the node functions; channel = channel of the domain × 2^(channel functions) +
    /// value of the channel functions.
    #[must_use]
    pub fn bank_roles(&self, raw_bank: u32) -> Option<BankRoles> {
        let domain = self.domains().get((raw_bank >> self.functions().len()) as usize)?;
        let mut roles = BankRoles::default();
        for role in Role::EVERY {
            *roles.of_role(role) = self.role_value(role, raw_bank).unwrap_or(0);
        }
        roles.node += domain.node;
        roles.channel |= domain.channel << self.role_bits(Role::Channel);
        Some(roles)
    }

    /// Finds the raw bank number with these roles; `None` when the machine has no such bank.
    #[must_use]
    pub fn raw_bank_of(&self, roles: BankRoles) -> Option<u32> {
        // Node functions may add to a domain's node, so each domain is tried.
        (0..self.domains().len() as u32).find_map(|index| {
            let domain = self.domains()[index as usize];
            let mut rest = roles;
            rest.node = roles.node.checked_sub(domain.node)?;
            rest.channel = roles.channel.checked_sub(domain.channel << self.role_bits(Role::Channel))?;
            let mut raw_bank = index << self.functions().len();
            for (bit, function) in self.functions().iter().enumerate() {
                raw_bank |= (*rest.of_role(function.role) >> function.role_bit & 1) << bit;
            }
            (self.bank_roles(raw_bank) == Some(roles)).then_some(raw_bank)
        })
    }

    /// Counts the functions of a role.
    #[must_use]
    pub fn role_bits(&self, role: Role) -> u32 {
        self.functions().iter().filter(|function| function.role == role).count() as u32
    }
}

/// The reason why a TintMalloc color cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TintError {
    /// A function has no known role.
    #[error(
        "platform {platform:?}: bank function {function} has the role unknown, and a TintMalloc color needs every bit's role \
         (node, channel, subchannel, dimm, rank, bank_group or bank); dense class indices work without"
    )]
    UnknownRole {
        /// The platform's id.
        platform: String,
        /// Index of the function.
        function: usize,
    },
    /// A number at or above the limit.
    #[error("{what} {asked} does not exist, accepted is 0-{}", count - 1)]
    OutOfRange {
        /// The kind of object that the number names.
        what: &'static str,
        /// The number.
        asked: u32,
        /// How many there are.
        count: u32,
    },
    /// A class has several colors.
    #[error(
        "granules of bank class {class} touch {} banks at once, TintMalloc colors {colors:?}, because {} lie inside the \
         granule; such a color cannot be given to a task, the class can", colors.len(), inside.join(" and ")
    )]
    NotHonored {
        /// The class.
        class: u32,
        /// All colors of the class, ascending.
        colors: Vec<u32>,
        /// The functions with bits inside the granule, as text.
        inside: Vec<String>,
    },
}

/// Numbers banks as TintMalloc does: NN nodes, NC channels of a node, NR ranks of a channel, NB banks of a rank.
///
/// Subchannels count as channels, modules as ranks, bank groups as banks. Nodes are numbered densely in the order of
/// their numbers in the platform.
#[derive(Clone, Debug)]
pub struct TintNumbering<'a> {
    platform: &'a Platform,
    /// Node numbers, ascending.
    nodes: Vec<u32>,
    channels: u32,
    ranks: u32,
    banks: u32,
}

/// A bank in TintMalloc's four coordinates, each below its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct TintBank {
    /// Index of the node, below NN.
    pub node: u32,
    /// Channel of the node, below NC.
    pub channel: u32,
    /// Rank of the channel, below NR.
    pub rank: u32,
    /// Bank of the rank, below NB.
    pub bank: u32,
}

impl<'a> TintNumbering<'a> {
    /// Prepares the numbering of a platform whose functions all have roles.
    ///
    /// # Errors
    /// [`TintError::UnknownRole`].
    pub fn new(platform: &'a Platform) -> Result<TintNumbering<'a>, TintError> {
        if let Some(function) = platform.functions().iter().position(|function| function.role == Role::Unknown) {
            return Err(TintError::UnknownRole { platform: platform.id().to_owned(), function });
        }
        let bits = |roles: &[Role]| roles.iter().map(|&role| platform.role_bits(role)).sum::<u32>();
        let node_values = 1 << platform.role_bits(Role::Node);
        let mut nodes: Vec<u32> =
            platform.domains().iter().flat_map(|domain| (0..node_values).map(|value| domain.node + value)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let ways = platform.domains().iter().map(|domain| domain.channel + 1).max().unwrap_or(1);
        Ok(TintNumbering {
            platform,
            nodes,
            channels: ways << bits(&[Role::Channel, Role::Subchannel]),
            ranks: 1 << bits(&[Role::Dimm, Role::Rank]),
            banks: 1 << bits(&[Role::BankGroup, Role::Bank]),
        })
    }

    /// Gives (NN, NC, NR, NB).
    #[must_use]
    pub fn geometry(&self) -> (u32, u32, u32, u32) {
        (self.nodes.len() as u32, self.channels, self.ranks, self.banks)
    }

    /// Counts the colors: NN × NC × NR × NB.
    #[must_use]
    pub fn colors(&self) -> u32 {
        self.nodes.len() as u32 * self.channels * self.ranks * self.banks
    }

    /// Gives the four coordinates of a raw bank number; `None` at or above `banks()`.
    #[must_use]
    pub fn bank(&self, raw_bank: u32) -> Option<TintBank> {
        let roles = self.platform.bank_roles(raw_bank)?;
        Some(TintBank {
            node: self.nodes.binary_search(&roles.node).ok()? as u32,
            channel: roles.channel << self.platform.role_bits(Role::Subchannel) | roles.subchannel,
            rank: roles.dimm << self.platform.role_bits(Role::Rank) | roles.rank,
            bank: roles.bank_group << self.platform.role_bits(Role::Bank) | roles.bank,
        })
    }

    /// Gives the color of a bank: `((node*NC + channel)*NR + rank)*NB + bank`, in `0..colors()`.
    #[must_use]
    pub fn color(&self, bank: TintBank) -> u32 {
        ((bank.node * self.channels + bank.channel) * self.ranks + bank.rank) * self.banks + bank.bank
    }

    /// Gives the number eq. 1 gives as printed, `((node*NN*NC + channel)*NR + rank)*NB + bank`: for comparison only, it is
    /// neither dense nor below `colors()`.
    #[must_use]
    pub fn color_as_printed(&self, bank: TintBank) -> u32 {
        let nodes = self.nodes.len() as u32;
        ((bank.node * nodes * self.channels + bank.channel) * self.ranks + bank.rank) * self.banks + bank.bank
    }

    /// Gives the bank of a color.
    ///
    /// # Errors
    /// [`TintError::OutOfRange`] at or above `colors()`.
    pub fn bank_of_color(&self, color: u32) -> Result<TintBank, TintError> {
        if color >= self.colors() {
            return Err(TintError::OutOfRange { what: "TintMalloc color", asked: color, count: self.colors() });
        }
        let (rest, bank) = (color / self.banks, color % self.banks);
        let (rest, rank) = (rest / self.ranks, rest % self.ranks);
        Ok(TintBank { node: rest / self.channels, channel: rest % self.channels, rank, bank })
    }

    /// Gives the raw bank number of a color; `None` for a color of a channel that this node lacks.
    ///
    /// # Errors
    /// [`TintError::OutOfRange`] at or above `colors()`.
    pub fn raw_bank_of_color(&self, color: u32) -> Result<Option<u32>, TintError> {
        let bank = self.bank_of_color(color)?;
        let low = |value: u32, role| value & ((1 << self.platform.role_bits(role)) - 1);
        let high = |value: u32, role| value >> self.platform.role_bits(role);
        Ok(self.platform.raw_bank_of(BankRoles {
            node: self.nodes[bank.node as usize],
            channel: high(bank.channel, Role::Subchannel),
            subchannel: low(bank.channel, Role::Subchannel),
            dimm: high(bank.rank, Role::Rank),
            rank: low(bank.rank, Role::Rank),
            bank_group: high(bank.bank, Role::Bank),
            bank: low(bank.bank, Role::Bank),
            unknown: 0,
        }))
    }

    /// Gives the color of the bank that holds a byte; `None` outside every region.
    #[must_use]
    pub fn color_at(&self, addr: PhysAddr) -> Option<u32> {
        self.platform.raw_bank(addr).and_then(|raw_bank| self.bank(raw_bank)).map(|bank| self.color(bank))
    }

    /// Gives the bank class whose granules touch the color's bank.
    ///
    /// # Errors
    /// [`TintError::OutOfRange`] at or above `colors()`.
    ///
    /// # Panics
    /// When the palette is of another platform with fewer banks.
    pub fn class_of_color(&self, palette: &Palette, color: u32) -> Result<Option<u32>, TintError> {
        let class = |raw_bank| palette.class_of_raw_bank(raw_bank).expect("the palette is of this platform");
        Ok(self.raw_bank_of_color(color)?.map(class))
    }

    /// Gives all colors whose banks granules of the class touch, ascending.
    ///
    /// # Errors
    /// [`TintError::OutOfRange`] at or above the palette's `bank_classes()`.
    pub fn colors_of_class(&self, palette: &Palette, class: u32) -> Result<Vec<u32>, TintError> {
        let count = palette.bank_classes();
        if class >= count {
            return Err(TintError::OutOfRange { what: "bank class", asked: class, count });
        }
        let members = palette.class_members(class);
        let mut colors: Vec<u32> =
            members.into_iter().filter_map(|raw| self.bank(raw)).map(|bank| self.color(bank)).collect();
        colors.sort_unstable();
        Ok(colors)
    }

    /// Gives the one color of a class.
    ///
    /// # Errors
    /// [`TintError::NotHonored`], with all of the class's colors, when its granules touch several banks;
    /// [`TintError::OutOfRange`] for a class that does not exist.
    pub fn color_of_class(&self, palette: &Palette, class: u32) -> Result<u32, TintError> {
        let colors = self.colors_of_class(palette, class)?;
        match colors.as_slice() {
            &[color] => Ok(color),
            _ => Err(TintError::NotHonored { class, colors, inside: self.functions_inside(palette) }),
        }
    }

    fn functions_inside(&self, palette: &Palette) -> Vec<String> {
        let inside = palette.granule().bytes() - 1;
        let functions = self.platform.functions().iter().filter(|function| function.mask & inside != 0);
        let text = |mask: u64| gf2::bits(mask & inside).map(|bit| bit.to_string()).collect::<Vec<_>>().join(", ");
        functions
            .map(|function| {
                format!("{} bit {} (address bit {})", function.role, function.role_bit, text(function.mask))
            })
            .collect()
    }
}
