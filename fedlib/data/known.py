"""The data sets known by name: their classes and the SHA-256 of their raw arrays (uint8; writers uint16).

MNIST and Fashion-MNIST: the idx files behind these hashes have the published MD5s 6bbc9ace... and f4a8712d... (training
images). CIFAR-10 is in its original order; rebuilt as binary batches it has the published MD5s 5dd7e06a... (batch 1).
CIFAR-100 is found in several orders, so it is sorted by (label, SHA-1 of the pixels) before it is hashed and used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Known:
    """What is known of a data set before it is loaded.

    `one_of_many` marks a data set of which other versions are equally valid (LEAF samples FEMNIST at random, another
    FreeType draws other glyphs): different bytes then give a warning and another fingerprint instead of an error.
    `unordered` data are sorted before use. `advice` tells how to get data that cannot be fetched automatically.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    hashes: Mapping[str, str]
    one_of_many: bool = False
    unordered: bool = False
    advice: str = ""


MNIST = Known(
    classes=CHARACTERS[:10],
    shape=(28, 28),
    hashes={
        "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
)

FASHION_MNIST = Known(
    classes=(
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    shape=(28, 28),
    hashes={
        "x_train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "y_train": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "x_test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "y_test": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    },
)

CIFAR10 = Known(
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    shape=(32, 32, 3),
    hashes={
        "x_train": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "x_test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
)

CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = Known(
    classes=tuple(CIFAR100_CLASSES.split()),
    shape=(32, 32, 3),
    hashes={
        "x_train": "80c9503d7b2fd102d4d5715c3799db9c536b770b8d08528624c47286638780d2",
        "y_train": "24e451cae1d0bb4af05bb556f43f7442043340bdc64d9e1896c2ad19efa810d1",
        "x_test": "67446a812dee5d1fb368fb87777560dc101cb9afa07786bd69bcea25f7930ac7",
        "y_test": "7335f3ca04ad4876c5479947470a13b869b8fe2143b1077bb51b95a0c23892b1",
    },
    unordered=True,
)

FEMNIST = Known(
    classes=CHARACTERS,
    shape=(28, 28),
    hashes={
        "x_train": "8fc9556571a959bae98eac9f90ab62ec54411ea63d7dad75192bb0ab1fbfc938",
        "y_train": "d6917897e6b690537487da5322bcb451e5b50ca07471801f57d246006958bf3d",
        "x_test": "7a6643fb3819dd0de90c3e92bc15c3b6a9b373a541a16fd63f367048421ee6fd",
        "y_test": "80af82298116434ca7d5f9e48694cc2efeb8e09f3dbecaa5b93f672110e0a1f5",
        "writer_train": "dbf60fa81d57e41e9b02cfccd9ab913a31f569212d7aa1c9ca720a04db8d1cff",
        "writer_test": "a94ee2fbfedc3c21fcb15a5373f597bd3acd1781d73b652a2a26b34ce2dd985a",
    },
    one_of_many=True,
    advice=(
        "no registry carries FEMNIST: make it with LEAF (`preprocess.sh -s niid --sf 0.1 -k 100 -t sample`)"
        " and store its pixels v as round(255 * (1 - v)), so that ink is 255, with the users' numbers as writers"
    ),
)

HANDWRITING = Known(
    classes=CHARACTERS,
    shape=(28, 28),
    hashes={
        "x_train": "bc7cf9da785a8e052e4b9c6b1c0d9fc73d7fd9f1243d920edbc096c833fff8f5",
        "y_train": "d70435bb9e970616607d0f894c3a0ef78cc4f08cf73f6d35905d4588b1ef70a9",
        "x_test": "2c0e23ff7f3718672121d39cf2fe72fa646e3ff667c94fa3234e3d300e8b0f62",
        "y_test": "e13b907cd3c0c6c8905cc9a6f8b3d5a13269aa365d800731f69c80729c36bcc4",
        "writer_train": "22cafcae5dd36b43e123c7b8fccc1ca21edafc09030306e774b924cf9502e9ea",
        "writer_test": "00a48ce34a0ac06a545cae7914b68d92b7864d4579a95e83fc80d2b1fb55d345",
    },
    one_of_many=True,
)

KNOWN: dict[str, Known] = {
    "mnist": MNIST,
    "fashion_mnist": FASHION_MNIST,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "femnist": FEMNIST,
    "handwriting": HANDWRITING,
}
FEATURES: dict[str, str] = {"mnist_hog": "mnist", "cifar10_hog": "cifar10"}  # name -> source of its images
# What `load(name).fingerprint` gives for these bytes, known without having them.
FINGERPRINTS: dict[str, str] = {
    "mnist": "a3eb591050caaec6",
    "fashion_mnist": "a5878f118634a89f",
    "cifar10": "8337a31b5b819672",
    "cifar100": "9dd06b7aab783de0",
    "femnist": "35e7e78b6f1a1ed7",
    "handwriting": "6b53787696529745",
    "mnist_hog": "7c35a918bf56051c",
    "cifar10_hog": "7a4d9282a66b89e2",
}
