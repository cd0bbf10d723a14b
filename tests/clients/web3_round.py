"""web3.py with an account of a running `bardo devnet`: the node signs, eth-account verifies.

DEVNET is the first line of `bardo devnet`, COUNTER a compiled contract. Ends with an error where an answer is not right.
"""

import json
import os

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from web3 import Web3
from web3.exceptions import ContractLogicError

described = json.loads(os.environ["DEVNET"])["chains"][0]
compiled = json.loads(os.environ["COUNTER"])
w3 = Web3(Web3.HTTPProvider(described["rpc"]))
account = w3.eth.accounts[3]
w3.eth.default_account = account


def mined(sent):
    receipt = w3.eth.wait_for_transaction_receipt(sent, timeout=60, poll_latency=0.05)
    assert receipt["status"] == 1, receipt
    return receipt


to = Web3.to_checksum_address("0x00000000000000000000000000000000c0ffee04")
receipt = mined(w3.eth.send_transaction({"from": account, "to": to, "value": 5}))
assert receipt["gasUsed"] == 21000
assert w3.eth.get_balance(to) == 5

deployed = mined(w3.eth.contract(abi=compiled["abi"], bytecode=compiled["bytecode"]).constructor().transact())
counter = w3.eth.contract(address=deployed["contractAddress"], abi=compiled["abi"])
added = mined(counter.functions.add(7).transact())
assert counter.events.Counted().process_receipt(added)[0]["args"]["count"] == 7
assert added["from"] == account
assert counter.functions.count().call() == 7
try:
    counter.functions.add(0).call()
    raise AssertionError("an impossible call went through")
except ContractLogicError as error:
    assert "nothing to add" in str(error), error

text = "signed by the node"
signature = w3.eth.sign(account, text=text)
assert Account.recover_message(encode_defunct(text=text), signature=signature) == account
typed = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
        "Order": [{"name": "maker", "type": "address"}, {"name": "amount", "type": "uint256"}],
    },
    "primaryType": "Order",
    "domain": {"name": "Round", "chainId": described["chain_id"]},
    "message": {"maker": account, "amount": 12},
}
signature = w3.eth.sign_typed_data(account, typed)
assert Account.recover_message(encode_typed_data(full_message=typed), signature=signature) == account

proof = w3.eth.get_proof(counter.address, [0], "latest")
assert int.from_bytes(proof["storageProof"][0]["value"], "big") == 7, proof
call = w3.eth.simulate_v1({"blockStateCalls": [{"calls": [{"from": account, "to": to, "value": 1}]}]}, "latest")
assert call[0]["calls"][0]["status"] == 1, call
block = w3.tracing.trace_block(added["blockNumber"])
assert block[0]["action"]["to"] == counter.address, block
assert w3.geth.txpool.inspect() is not None
print("all answers are right")
