//! A persistent Merkle Patricia trie ([Yellow Paper](https://ethereum.github.io/yellowpaper/paper.pdf), appendix D)
//! over 32-byte keys. Clones are cheap and share unchanged parts. Each node caches its hash, so the cost of a new root
//! depends on the changes only.
//!
//! Not here: the meaning of keys and values (see `state`).

use std::sync::{Arc, OnceLock};

use alloy::primitives::{B256, Bytes, keccak256};
use alloy::rlp::{EMPTY_STRING_CODE, Encodable, Header};
use alloy_trie::nodes::{ExtensionNodeRef, LeafNodeRef, RlpNode};
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles};

/// Length in bytes below which a node is embedded in its parent; longer nodes are referenced by hash.
const EMBEDDED_BELOW: usize = 32;

/// Length in bytes of the header of a branch: its payload is at most 16 hashes and a value.
const MOST_HEADER: usize = 3;

/// A trie whose keys are hashes already; only nodes are hashed here.
#[derive(Clone, Default)]
pub(super) struct Trie {
    root: Option<Link>,
}

type Link = Arc<Node>;

/// A node with its cached reference, as stored in the parent.
#[derive(Clone)]
struct Node {
    kind: Kind,
    reference: OnceLock<RlpNode>,
}

#[derive(Clone)]
enum Kind {
    /// The rest of the key, and the value.
    Leaf(Nibbles, Box<[u8]>),
    /// The path that all keys below share, and a branch.
    Extension(Nibbles, Link),
    /// Children by the next nibble; there are at least two.
    Branch(Box<[Option<Link>; 16]>),
}

impl Trie {
    pub(super) fn root(&self) -> B256 {
        let Some(node) = &self.root else { return EMPTY_ROOT_HASH };
        let reference = node.reference();
        // The root is always hashed, even if it is short.
        reference.as_hash().unwrap_or_else(|| keccak256(reference.as_slice()))
    }

    /// Inserts `value` under `key`, replacing an existing one.
    pub(super) fn insert(&mut self, key: B256, value: impl Into<Box<[u8]>>) {
        let path = Nibbles::unpack_array(&key.0);
        let value = value.into();
        self.root = Some(match self.root.take() {
            Some(root) => put(root, path, value),
            None => Node::link(Kind::Leaf(path, value)),
        });
    }

    /// Removes the value under `key`.
    pub(super) fn remove(&mut self, key: B256) {
        let path = Nibbles::unpack_array(&key.0);
        // A missing key must not change any node, so that cached hashes stay.
        if self.path_to(&path).1
            && let Some(root) = self.root.take()
        {
            self.root = cut(root, path);
        }
    }

    /// Encoded nodes from the root towards `key`: a proof of its value or its absence
    /// ([EIP-1186](https://eips.ethereum.org/EIPS/eip-1186)).
    pub(super) fn prove(&self, key: B256) -> Vec<Bytes> {
        let (nodes, _) = self.path_to(&Nibbles::unpack_array(&key.0));
        let encoded = nodes.into_iter().map(Node::encoded).enumerate();
        encoded
            .filter(|(depth, node)| *depth == 0 || node.len() >= EMBEDDED_BELOW)
            .map(|(_, node)| node.into())
            .collect()
    }

    /// Nodes on the path to `path`, and whether the last one is its leaf.
    fn path_to(&self, path: &Nibbles) -> (Vec<&Node>, bool) {
        let mut nodes = Vec::new();
        let mut rest = *path;
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            nodes.push(node);
            next = match &node.kind {
                Kind::Leaf(at, _) => return (nodes, *at == rest),
                Kind::Extension(at, child) if rest.starts_with(at) => {
                    rest = rest.slice(at.len()..);
                    Some(child)
                }
                Kind::Extension(..) => None,
                Kind::Branch(children) => {
                    let child = rest.first().and_then(|nibble| children.get(usize::from(nibble))?.as_deref());
                    rest = rest.slice(1..);
                    child
                }
            };
        }
        (nodes, false)
    }
}

impl Node {
    fn link(kind: Kind) -> Link {
        Arc::new(Self { kind, reference: OnceLock::new() })
    }

    /// The parent's reference to this node: its encoding or its hash.
    fn reference(&self) -> &RlpNode {
        self.reference.get_or_init(|| RlpNode::from_rlp(&self.encoded()))
    }

    fn encoded(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        match &self.kind {
            Kind::Leaf(path, value) => LeafNodeRef::new(path, value).encode(&mut encoded),
            Kind::Extension(path, child) => {
                ExtensionNodeRef::new(path, child.reference().as_slice()).encode(&mut encoded);
            }
            Kind::Branch(children) => {
                // Written here and not by way of a list of references: most of a root's time is in branches. The
                // seventeenth item is the branch's own value, which a trie of hashed keys never has.
                let length = |child: &Option<Link>| child.as_ref().map_or(1, |child| child.reference().len());
                let payload_length = children.iter().map(length).sum::<usize>() + 1;
                encoded.reserve_exact(payload_length + MOST_HEADER);
                Header { list: true, payload_length }.encode(&mut encoded);
                for child in children.iter() {
                    match child {
                        Some(child) => encoded.extend_from_slice(child.reference().as_slice()),
                        None => encoded.push(EMPTY_STRING_CODE),
                    }
                }
                encoded.push(EMPTY_STRING_CODE);
            }
        }
        encoded
    }
}

/// Inserts `value` at `path` below `link`.
fn put(link: Link, path: Nibbles, value: Box<[u8]>) -> Link {
    match Arc::unwrap_or_clone(link).kind {
        Kind::Leaf(at, _) if at == path => Node::link(Kind::Leaf(path, value)),
        Kind::Leaf(at, old) => {
            let shared = at.common_prefix_length(&path);
            let mut children = Box::new([const { None }; 16]);
            hang(&mut children, &at, shared, |rest| Node::link(Kind::Leaf(rest, old)));
            hang(&mut children, &path, shared, |rest| Node::link(Kind::Leaf(rest, value)));
            join(path.slice(..shared), Node::link(Kind::Branch(children)))
        }
        Kind::Extension(at, child) => {
            let shared = at.common_prefix_length(&path);
            if shared == at.len() {
                return Node::link(Kind::Extension(at, put(child, path.slice(shared..), value)));
            }
            let mut children = Box::new([const { None }; 16]);
            hang(&mut children, &at, shared, |rest| join(rest, child));
            hang(&mut children, &path, shared, |rest| Node::link(Kind::Leaf(rest, value)));
            join(path.slice(..shared), Node::link(Kind::Branch(children)))
        }
        Kind::Branch(mut children) => {
            let old = take(&mut children, &path, 0);
            hang(&mut children, &path, 0, |rest| match old {
                Some(child) => put(child, rest, value),
                None => Node::link(Kind::Leaf(rest, value)),
            });
            Node::link(Kind::Branch(children))
        }
    }
}

/// Removes the leaf at `path`, which must exist.
fn cut(link: Link, path: Nibbles) -> Option<Link> {
    match Arc::unwrap_or_clone(link).kind {
        Kind::Leaf(..) => None,
        Kind::Extension(at, child) => cut(child, path.slice(at.len()..)).map(|below| join(at, below)),
        Kind::Branch(mut children) => {
            let below = take(&mut children, &path, 0).and_then(|child| cut(child, path.slice(1..)));
            if let Some(below) = below {
                hang(&mut children, &path, 0, |_| below);
                return Some(Node::link(Kind::Branch(children)));
            }
            if children.iter().flatten().count() > 1 {
                return Some(Node::link(Kind::Branch(children)));
            }
            // A single remaining child needs no branch.
            let (nibble, last) =
                (0_u8..).zip(children.iter_mut()).find_map(|(nibble, child)| Some((nibble, child.take()?)))?;
            Some(join(Nibbles::from_nibbles([nibble]), last))
        }
    }
}

/// Sets a branch's child at nibble `at` of `path` to the node that `make` creates for the rest of the path.
fn hang(children: &mut [Option<Link>; 16], path: &Nibbles, at: usize, make: impl FnOnce(Nibbles) -> Link) {
    if let Some(place) = path.get(at).and_then(|nibble| children.get_mut(usize::from(nibble))) {
        *place = Some(make(path.slice(at + 1..)));
    }
}

fn take(children: &mut [Option<Link>; 16], path: &Nibbles, at: usize) -> Option<Link> {
    children.get_mut(usize::from(path.get(at)?))?.take()
}

/// Prepends `prefix` to the path of `link`.
fn join(prefix: Nibbles, link: Link) -> Link {
    if prefix.is_empty() {
        return link;
    }
    match &link.kind {
        Kind::Branch(_) => Node::link(Kind::Extension(prefix, link)),
        Kind::Extension(path, child) => Node::link(Kind::Extension(prefix.join(path), Arc::clone(child))),
        Kind::Leaf(path, value) => Node::link(Kind::Leaf(prefix.join(path), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use alloy_trie::HashBuilder;
    use alloy_trie::proof::verify_proof;
    use proptest::prelude::*;

    use super::*;

    /// The root that alloy's `HashBuilder` computes from all entries.
    fn expected(entries: &BTreeMap<B256, Vec<u8>>) -> B256 {
        let mut builder = HashBuilder::default();
        for (key, value) in entries {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        builder.root()
    }

    /// Keys that often share long prefixes, unlike hashes.
    fn key() -> impl Strategy<Value = B256> {
        (0_u8..3, 0_u8..4, 0_usize..4, prop::sample::select(vec![0_u8, 0x10, 0x11, 0xff])).prop_map(
            |(first, last, place, middle)| {
                let mut key = B256::ZERO;
                key[0] = first << 4;
                key[[1, 2, 15, 30][place]] = middle;
                key[31] = last;
                key
            },
        )
    }

    proptest! {
        #[test]
        fn any_changes_lead_to_the_root_and_the_proofs_that_verify_against_it(
            changes in prop::collection::vec((key(), prop::option::weighted(0.6, prop::collection::vec(1_u8.., 1..40))), 1..60),
            asked in prop::collection::vec(key(), 5),
        ) {
            let (mut trie, mut entries) = (Trie::default(), BTreeMap::new());
            let mut earlier = Vec::new();
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        trie.insert(key, value.clone());
                        entries.insert(key, value);
                    }
                    None => {
                        trie.remove(key);
                        entries.remove(&key);
                    }
                }
                prop_assert_eq!(trie.root(), expected(&entries));
                earlier.push((trie.clone(), trie.root()));
            }
            for key in asked.into_iter().chain(entries.keys().copied()) {
                let proof = trie.prove(key);
                let verified = verify_proof(trie.root(), Nibbles::unpack(key), entries.get(&key).cloned(), &proof);
                prop_assert!(verified.is_ok(), "{verified:?}");
            }
            // Clones are unchanged: every node is hashed again here, without caches.
            for (copy, root) in earlier {
                prop_assert_eq!(copy.rebuilt().root(), root);
            }
        }
    }

    impl Trie {
        fn rebuilt(&self) -> Self {
            fn rebuild(link: &Link) -> Link {
                Node::link(match &link.kind {
                    Kind::Leaf(path, value) => Kind::Leaf(*path, value.clone()),
                    Kind::Extension(path, child) => Kind::Extension(*path, rebuild(child)),
                    Kind::Branch(children) => {
                        Kind::Branch(Box::new(std::array::from_fn(|at| children[at].as_ref().map(rebuild))))
                    }
                })
            }
            Self { root: self.root.as_ref().map(rebuild) }
        }
    }

    #[test]
    fn an_empty_trie_has_the_root_of_the_yellow_paper_and_proves_nothing() {
        let mut trie = Trie::default();
        let empty = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421".parse::<B256>().unwrap();
        assert_eq!(trie.root(), empty);
        assert!(trie.prove(B256::ZERO).is_empty());
        trie.insert(B256::repeat_byte(1), vec![1]);
        assert_ne!(trie.root(), empty);
        trie.remove(B256::repeat_byte(2));
        trie.remove(B256::repeat_byte(1));
        assert_eq!(trie.root(), empty);
    }
}
