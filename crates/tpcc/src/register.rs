//! Names of registers: a tag of the table and column group, and ids of fixed width.

use serde::{Deserialize, Serialize};

use solera_creek::RegisterKey;

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct District {
    /// `W_ID`, from 1.
    pub warehouse: u16,
    /// `D_ID`, from 1 to 10.
    pub id: u8,
}

/// A customer of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Customer {
    /// Home district of the customer.
    pub district: District,
    /// `C_ID`, from 1 to 3,000.
    pub id: u16,
}

/// An order of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderId {
    /// District in which the order was placed.
    pub district: District,
    /// `O_ID`, from 1.
    pub id: u32,
}

/// Name of a register.
///
/// A register contains those columns of a row that the same transactions write. Columns that no
/// transaction writes are in no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Register {
    /// `W_YTD` of a warehouse: an amount.
    WarehouseYtd(u16),
    /// `D_YTD`: an amount.
    DistrictYtd(District),
    /// `D_NEXT_O_ID`: a number.
    NextOrder(District),
    /// Order with which the search for the oldest row of NEW-ORDER begins: a number. The index
    /// that Delivery uses.
    OldestNewOrder(District),
    /// `C_BALANCE`: an amount.
    Balance(Customer),
    /// `C_YTD_PAYMENT` and `C_PAYMENT_CNT`.
    Payments(Customer),
    /// `C_DELIVERY_CNT`: a number.
    Deliveries(Customer),
    /// `C_DATA`.
    Data(Customer),
    /// The customer's last order: a number. The index that Order-Status uses.
    LastOrder(Customer),
    /// The row of HISTORY for the customer's n-th payment.
    History(Customer, u32),
    /// Whether NEW-ORDER has a row for the order.
    NewOrder(OrderId),
    /// The row of ORDER except `O_CARRIER_ID`.
    Order(OrderId),
    /// `O_CARRIER_ID`: a number.
    Carrier(OrderId),
    /// The rows of ORDER-LINE of an order except `OL_DELIVERY_D`. Every transaction reads or
    /// writes them together.
    Lines(OrderId),
    /// `OL_DELIVERY_D`, which is the same in all lines of an order.
    DeliveryDate(OrderId),
    /// `S_QUANTITY`, `S_YTD`, `S_ORDER_CNT` and `S_REMOTE_CNT` of an item in a warehouse.
    Stock(u16, u32),
}

/// Most bytes of the name of a register.
const MOST: usize = 12;

/// Encoded name of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    bytes: [u8; MOST],
    length: usize,
}

impl Key {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the encoded name with these parts. `ids` follow the tag, the warehouse and the
    /// district; the district of a row without one is 0.
    fn new<const N: usize>(tag: u8, district: District, ids: [u32; N]) -> Key {
        let mut bytes = [0; MOST];
        bytes[0] = tag;
        bytes[1..3].copy_from_slice(&district.warehouse.to_be_bytes());
        bytes[3] = district.id;
        for (id, at) in ids.iter().zip(bytes[4..].chunks_exact_mut(4)) {
            at.copy_from_slice(&id.to_be_bytes());
        }
        Key { bytes, length: 4 + 4 * N }
    }
}

impl Register {
    /// Returns the name as procedures use it.
    pub fn name(self) -> RegisterKey {
        self.key().as_slice().to_vec()
    }

    /// Returns the encoded name.
    pub(crate) fn key(self) -> Key {
        let customer = |tag, it: Customer| Key::new(tag, it.district, [it.id.into()]);
        let order = |tag, it: OrderId| Key::new(tag, it.district, [it.id]);
        let warehouse = |warehouse| District { warehouse, id: 0 };
        match self {
            Register::WarehouseYtd(it) => Key::new(b'w', warehouse(it), []),
            Register::DistrictYtd(it) => Key::new(b'd', it, []),
            Register::NextOrder(it) => Key::new(b'n', it, []),
            Register::OldestNewOrder(it) => Key::new(b'm', it, []),
            Register::Balance(it) => customer(b'b', it),
            Register::Payments(it) => customer(b'p', it),
            Register::Deliveries(it) => customer(b'e', it),
            Register::Data(it) => customer(b't', it),
            Register::LastOrder(it) => customer(b'a', it),
            Register::History(it, payment) => Key::new(b'h', it.district, [it.id.into(), payment]),
            Register::NewOrder(it) => order(b'q', it),
            Register::Order(it) => order(b'o', it),
            Register::Carrier(it) => order(b'c', it),
            Register::Lines(it) => order(b'l', it),
            Register::DeliveryDate(it) => order(b'y', it),
            Register::Stock(it, item) => Key::new(b's', warehouse(it), [item]),
        }
    }

    /// Returns the register with a name; `None` if there is none.
    pub fn decode(name: &[u8]) -> Option<Register> {
        let (tag, rest) = name.split_first()?;
        let (warehouse, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first()?;
        let warehouse = u16::from_be_bytes(*warehouse);
        let district = District { warehouse, id: *id };
        let (ids, []) = rest.as_chunks() else { return None };
        let ids: Vec<u32> = ids.iter().map(|id| u32::from_be_bytes(*id)).collect();
        let register = match (tag, &ids[..]) {
            (b'w', []) => Register::WarehouseYtd(warehouse),
            (b'd', []) => Register::DistrictYtd(district),
            (b'n', []) => Register::NextOrder(district),
            (b'm', []) => Register::OldestNewOrder(district),
            (b's', [item]) => Register::Stock(warehouse, *item),
            (b'h', [id, payment]) => {
                Register::History(Customer { district, id: u16::try_from(*id).ok()? }, *payment)
            }
            (_, [id]) => Register::decode_row(*tag, district, *id)?,
            _ => return None,
        };
        (register.key().as_slice() == name).then_some(register)
    }

    /// Returns the register of a customer or an order.
    fn decode_row(tag: u8, district: District, id: u32) -> Option<Register> {
        let order = OrderId { district, id };
        let customer = || Some(Customer { district, id: u16::try_from(id).ok()? });
        Some(match tag {
            b'b' => Register::Balance(customer()?),
            b'p' => Register::Payments(customer()?),
            b'e' => Register::Deliveries(customer()?),
            b't' => Register::Data(customer()?),
            b'a' => Register::LastOrder(customer()?),
            b'q' => Register::NewOrder(order),
            b'o' => Register::Order(order),
            b'c' => Register::Carrier(order),
            b'l' => Register::Lines(order),
            b'y' => Register::DeliveryDate(order),
            _ => return None,
        })
    }

    /// Returns the warehouse, and the district of a row that has one.
    pub(crate) fn place(self) -> (u16, Option<District>) {
        let district = match self {
            Register::WarehouseYtd(it) | Register::Stock(it, _) => return (it, None),
            Register::DistrictYtd(it) | Register::NextOrder(it) | Register::OldestNewOrder(it) => {
                it
            }
            Register::Balance(it)
            | Register::Payments(it)
            | Register::Deliveries(it)
            | Register::Data(it)
            | Register::LastOrder(it)
            | Register::History(it, _) => it.district,
            Register::NewOrder(it)
            | Register::Order(it)
            | Register::Carrier(it)
            | Register::Lines(it)
            | Register::DeliveryDate(it) => it.district,
        };
        (district.warehouse, Some(district))
    }

    /// Returns the customer whose row this is.
    pub(crate) fn customer(self) -> Option<Customer> {
        match self {
            Register::Balance(it)
            | Register::Payments(it)
            | Register::Deliveries(it)
            | Register::Data(it)
            | Register::LastOrder(it)
            | Register::History(it, _) => Some(it),
            _ => None,
        }
    }

    /// Returns the order whose row this is.
    pub(crate) fn order(self) -> Option<OrderId> {
        match self {
            Register::NewOrder(it)
            | Register::Order(it)
            | Register::Carrier(it)
            | Register::Lines(it)
            | Register::DeliveryDate(it) => Some(it),
            _ => None,
        }
    }
}
