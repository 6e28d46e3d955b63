-- The stock of the shop of checkout.mixt, as another program may have created it.
CREATE TABLE stock (
    product text PRIMARY KEY,
    count   int  NOT NULL CHECK (count >= 0)
);
INSERT INTO stock (product, count) VALUES ('pen', 5), ('ink', 40), ('paper', 200);
