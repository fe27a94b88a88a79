"""200 prompts of seven categories; none is in a workload of this package or among its training prompts."""

# ruff: noqa: E501 - what is said in one breath stays in one line

import itertools

LONG_FILLER = (
    "The gate at the lower lock was opened at {hour} for a barge with {load}. "
    "The keeper wrote down the level of the water, {level} centimetres, and the wind from the {wind}. "
    "A boy asked whether the {animal} by the weir came every day; the keeper said it depended. "
)

CHAT = {
    "What should I know before I {}?": (
        "adopt an older cat", "paint a wooden fence", "join a choir", "rent out a spare room",
        "take a night train", "bake with rye flour", "buy a used piano", "keep a compost heap",
    ),
    "My neighbour {}. How can I bring it up politely?": (
        "parks across my drive", "practises the trumpet at dawn", "borrows tools and forgets them",
        "leaves the shared door open", "feeds the pigeons", "burns leaves when my washing is out",
    ),
    "Which is better for a weekend in {}, and why: {}?": (
        ("the mountains", "a hut or a tent"), ("a port town", "a ferry or a bus"),
        ("winter", "skates or skis"), ("a big city", "a museum pass or single tickets"),
        ("a vineyard", "a bicycle or walking boots"),
    ),
    "Describe the sound of {} to somebody who has never heard it.": (
        "an old refrigerator", "snow under boots", "a market before opening", "a cello being tuned",
        "rain on a tin roof", "a library at closing time",
    ),
    "Draft a short notice: {}.": (
        "the lift is out of order until Thursday", "a green scarf was found in room 4",
        "the allotment meeting moves to the barn", "the swimming hall closes early on Sunday",
        "volunteers are wanted for the lantern walk",
    ),
}  # fmt: skip

CODE = {
    "Write a {} that {}.": tuple(
        itertools.product(
            ("Python function", "JavaScript function", "shell script", "SQL query"),
            (
                "counts how often each weekday occurs between two dates",
                "lists the ten largest entries",
                "removes duplicates and keeps the order",
                "groups records by their first letter",
                "finds gaps in a series of numbers",
                "says which of two versions, such as 1.10 and 1.9, is newer",
                "rounds prices to the nearest five cents",
            ),
        )
    ),
}

MATH = {
    "A {} holds {} litres and loses {} litres an hour. After how many whole hours is less than half "
    "left? Show the steps.": tuple(
        zip(
            ("tank", "barrel", "pond", "boiler", "cistern"), (480, 220, 9000, 75, 1300),
            (35, 12, 410, 4, 88), strict=True,
        )
    ),
    "What is {} percent of {}? Explain.": (
        (15, 240), (7, 1300), (62, 450), (3, 99), (110, 80), (45, 620), (8, 7250),
    ),
    "Solve for x: {}": (
        "3x + 7 = 31", "5(x - 2) = 3x + 8", "x/4 - 3 = 9", "2x^2 = 98", "7 - 2x = 3x - 18",
        "(x + 1)(x - 4) = 0",
    ),
    "{} friends share a bill of {} euros and add a tip of {} euros. What does each pay?": (
        (4, 86, 10), (3, 57, 6), (6, 201, 21), (5, 112, 13), (7, 245, 28),
    ),
    "Which number comes next, and what is the rule: {}?": (
        "3, 6, 12, 24", "100, 93, 86, 79", "1, 4, 9, 16", "2, 3, 5, 8, 12", "81, 27, 9, 3",
        "5, 10, 8, 16, 14",
    ),
}  # fmt: skip

RECORDS = (
    "Order 5521: two oak shelves, one lamp, paid by card on 4 May, to be sent to Ines Falk, Hafen 3.",
    "The 17:42 from Brno arrived 11 minutes late on platform 6 with four coaches and a dining car.",
    "Patient reports mild headache since Monday, took 400 mg ibuprofen twice, no fever, sleeps badly.",
    "Flat to let: three rooms, 71 square metres, second floor, balcony, 940 euros, free from August.",
    "Meeting of 9 June: Tomas will repair the pump, Lea asks the council, next date is 23 June, 18:00.",
    "Sensor B7 read 21.4 degrees at 06:00, 23.9 at noon and 19.8 at 22:00; battery at 64 percent.",
    "Bought: 1.5 kg flour (2.10), six eggs (1.95), butter (2.49), paid 10, got 3.46 back.",
)

EXTRACTION = {
    "{}\n\n{}": tuple(
        (task, record)
        for record, task in itertools.product(
            RECORDS,
            (
                "Put the facts of this text into JSON.",
                "List every number in this text with what it stands for.",
                "Who or what is this about, and when? One line.",
                "Make a table of two columns, what and value, from this text.",
            ),
        )
    ),
}

SENTENCES = (
    "The bridge is closed for repairs, so please take the ferry.",
    "She has kept every letter that her grandfather wrote.",
    "If it rains tomorrow we will hold the concert in the hall.",
    "Nobody noticed that the clock had stopped.",
    "The soup needs salt, and the bread is still warm.",
    "He learned to swim when he was nearly sixty.",
    "Our train was late because a cow stood on the track.",
)

TRANSLATION = {
    "Translate into {}: {}": tuple(
        itertools.product(("French", "German", "Spanish", "Italian"), SENTENCES)
    ),
}

CHINESE = {
    "请用{}句话介绍{}。": tuple(
        itertools.product(("两", "五"), ("竹子", "灯塔", "算盘", "豆腐", "风筝", "地铁", "荷花"))
    ),
    "怎样才能{}?请分步骤说明。": (
        "学会打字", "养好一盆兰花", "准备一次野餐", "修好漏水的水龙头", "记住新单词", "安排一天的时间",
        "挑一个好西瓜",
    ),
    "把这句话翻译成英文:{}": (
        "明天早上七点在车站见。", "这本书我已经看了三遍。", "外面下雪了,路很滑。", "他请我们去家里吃饺子。",
        "请把窗户关上。", "我的手机没电了。", "这家店的面条很有名。",
    ),
}  # fmt: skip

QUESTIONS = (
    "What did the keeper write down?", "How often does the animal come?", "Summarise this log.",
    "Which loads are named?", "What was the highest level of the water?",
)  # fmt: skip


def prompts():
    """[(category, text)], 200 of them, the categories taking turns."""
    columns = [
        [(name, text) for text in _filled(templates)]
        for name, templates in (
            ("chat", CHAT), ("code", CODE), ("math", MATH), ("extraction", EXTRACTION),
            ("translation", TRANSLATION), ("chinese", CHINESE),
        )
    ]  # fmt: skip
    columns.append([("long context", text) for text in _long()])
    rows = itertools.zip_longest(*columns)
    return [prompt for row in rows for prompt in row if prompt is not None][:200]


def _filled(templates):
    for template, values in templates.items():
        for value in values:
            yield template.format(*(value if isinstance(value, tuple) else (value,)))


def _long():
    """Logs of 8 to 35 entries, about 70 tokens each, and a question about them."""
    for number in range(29):
        entries = (
            LONG_FILLER.format(
                hour=f"{(5 + number + entry) % 24}:{entry * 7 % 60:02}",
                load=("timber", "grain", "bricks", "salt", "apples")[(number + entry) % 5],
                level=180 + (number * 13 + entry * 29) % 90,
                wind=("north", "east", "south", "west")[(number * entry) % 4],
                animal=("heron", "otter", "swan")[(number + 2 * entry) % 3],
            )
            for entry in range(8 + number)
        )
        yield "".join(entries) + "\n\n" + QUESTIONS[number % len(QUESTIONS)]
