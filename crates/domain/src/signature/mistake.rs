//! Well-known mistakes of signing, in words (contract 3.7.2).

use crate::text;
use crate::text::Text;
use crate::wallet::WalletCall;

macro_rules! mistakes {
    ($($(#[doc = $summary:literal])+ $name:ident: $text:literal;)+) => {
        /// The most likely mistake of an app's server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[doc = $summary])+ $name,)+
            /// This field was not signed.
            FieldUnsigned(&'static str),
            /// This field came under another name.
            FieldRenamed(&'static str),
        }

        impl Mistake {
            /// The words of every mistake that names no field.
            pub const WORDS: [&'static str; [$($text),+].len()] = [$($text),+];

            /// The mistake in words.
            #[must_use]
            pub fn text(self) -> Text {
                match self {
                    $(Self::$name => Text::new($text),)+
                    Self::FieldUnsigned(field) => {
                        text!("{field} was not signed; sign every field that is not empty", field)
                    }
                    Self::FieldRenamed(field) => {
                        text!("a field came under another name; it is called {field}", field)
                    }
                }
            }
        }
    };
}

mistakes! {
    /// Values were URL-encoded before signing.
    ValuesEncoded: "values were URL-encoded before signing; sign them as they are";
    /// Empty fields were kept.
    EmptyFieldsKept: "empty fields were kept; leave them out of the string";
    /// `access_token` was signed too.
    AccessTokenIncluded: "access_token was included; it is not signed";
    /// `access_token` and empty fields were signed too.
    TokenAndEmptyFields: "access_token and empty fields were included; leave both out of the string";
    /// `pay_priority` was signed, and did not come.
    PriorityNotSent: "pay_priority was signed but not sent; send it, or leave it out of the string";
    /// The fields were not sorted by name.
    NotSorted: "the fields were not sorted; join them in ASCII order of their names";
    /// The names were in upper case.
    UpperCaseNames: "the field names were in upper case; sign them as they are sent";
    /// Key and message were swapped.
    KeyAndMessageSwapped: "key and message were swapped; the pay key is the HMAC key";
    /// The app secret was the key.
    AppSecretAsKey: "the app secret was used as the key; sign with the pay key";
    /// The access token was the key.
    AccessTokenAsKey: "the access_token was used as the key; sign with the pay key";
    /// The id of the app was the key.
    AppIdAsKey: "the app_id was used as the key; sign with the pay key";
    /// The key was empty, as that of a variable which is not set.
    EmptyKey: "the key was empty; sign with the pay key";
    /// What stands for the signature in an example, or what a program writes for nothing.
    Placeholder: "the signature is a placeholder, which nothing replaced; send the HMAC-SHA256 with the pay key, in hexadecimal";
    /// The key was decoded, encoded, hashed or changed in case before use.
    KeyChanged: "the pay key was decoded, encoded, hashed or changed in case before use; use its text as it is";
    /// The signature is not 64 hexadecimal digits, whatever it is of.
    NoDigest: "the signature is not 64 hexadecimal digits; it is an HMAC-SHA256 with the pay key, in hexadecimal";
    /// A pay key was used that a rotation has retired.
    RetiredPayKey: "the pay key is retired; sign with the current one";
    /// MD5 of the string with the app secret appended.
    Md5WithAppSecret:
        "MD5 with the app secret appended was used; exchanges are signed with HMAC-SHA256 and the pay key";
    /// Leading zeros are missing, of the number or of each byte.
    ZerosMissing: "the signature is right but written wrong: leading zeros are missing; write two digits for each byte";
    /// There are separators between the bytes.
    SeparatorsInSign: "the signature is right but written wrong: there are separators between its bytes; leave them out";
    /// There is a prefix, as `0x`.
    PrefixBeforeSign: "the signature is right but written wrong: there is a prefix, as 0x or sha256=; leave it out";
    /// Blanks, line ends, quotes or brackets are around it.
    StraysAroundSign: "the signature is right but written wrong: a blank, a line end or quotes are around it, or brackets";
    /// A separator, as the `&` behind it, is around it.
    SeparatorAroundSign: "the signature is right but written wrong: a separator, as &, is around it; leave it out";
    /// Characters without a shape are around it.
    UnseenAroundSign: "the signature is right but written wrong: an unseen character is around it; leave it out";
    /// It is a big integer: negative, with a zero for its sign, or with its last byte first.
    BigInteger: "the signature is right but written wrong: it is printed as a big integer; write two digits for each byte";
    /// The bytes are decimal numbers in a list.
    BytesInList: "the signature is right but written wrong: it is a list of decimal numbers; write two hexadecimal digits for each byte";
    /// Bytes above 127 were written as negative numbers.
    BytesWithSign: "the signature is right but written wrong: bytes above 127 begin with ffffff; write two digits for each byte";
    /// Only a part of the digits came.
    PartOfSign: "the signature is right but a part of it is missing; send all 64 digits";
    /// The digits were encoded once more.
    EncodedTwice: "the signature is right but encoded twice; send its 64 hexadecimal digits as they are";
    /// A separator was kept at an end of the string.
    SeparatorAtEnd: "the string began or ended with a separator; join the fields with & between them alone";
    /// The key was put into the text.
    KeyInText: "the key was put into the string; it is the key of HMAC-SHA256 and no part of the string";
    /// The path of the call was signed too.
    PathIncluded: "the path was signed too; sign the fields alone";
    /// The body was signed, encoded and in its order.
    BodySigned: "the body was signed as it is sent; sign the fields as they are, in ASCII order of their names";
    /// Another hash was used.
    AnotherHash: "another hash was used; sign with HMAC-SHA256 and the pay key";
    /// The fields were joined in another way.
    AnotherJoin: "the fields were joined in another way; join name=value with &";
    /// Characters were lost or changed before signing.
    CharactersLost: "characters were lost or changed before signing; sign each value as it is sent, in UTF-8";
    /// The signature is base64.
    Base64: "the signature is in base64; send it in hexadecimal";
    /// The string was encoded as GBK.
    GbkBytes: "the string was encoded in GBK; sign its bytes in UTF-8";
    /// The string was encoded neither in UTF-8 nor in GBK.
    OtherCoding: "the string was encoded in another coding than UTF-8; sign its bytes in UTF-8";
    /// The string had characters around it that belong to no field.
    StraysAroundString: "the string had a line end, a blank, quotes or a byte-order mark around it; sign the string alone";
    /// The key had characters around it that belong to no key.
    KeyWithStrays: "the key had a blank, a line end, quotes or an unseen character around it; use the key alone";
    /// The body was encoded twice.
    BodyEncodedTwice: "the body was encoded twice; encode each value once, and sign it as it is";
    /// The body was encoded by a function that writes `%u5251`.
    BodyEscaped: "the body was encoded as %u5251; encode it in UTF-8, as encodeURIComponent does";
    /// A plus sign was sent as it is, or a blank was signed as one.
    PlusNotEscaped: "a + was signed where a blank came; if the value has a +, send it as %2B, and if it has a blank, sign the blank";
    /// An ampersand was sent as it is.
    AmpersandNotEscaped: "a & in a value was sent as it is and ended the value; send it as %26";
    /// An empty field was signed as `null`.
    NullSigned: "an empty field was signed as null; leave empty fields out of the string";
    /// The names were written as Java writes them.
    CamelCaseNames: "the field names were signed in camel case; sign them as they are sent, as open_id";
    /// Fields outside the list were signed.
    UnlistedFieldsSigned: "fields were signed that are not in the list of signed fields; leave them out";
    /// `product_info` was serialised again after signing, or before.
    ProductInfoReserialised:
        "product_info was signed in another form than it was sent in; make its text once, sign and send that";
    /// The key of another app was used.
    AnotherAppsKey: "the pay key of another app was used; sign with the key of this app_id";
}

impl Mistake {
    /// The mistake in English words.
    #[must_use]
    pub fn english(self) -> Box<str> {
        self.text().english().into()
    }

    /// This field, which the call signs, was not signed.
    pub(super) fn unsigned(call: WalletCall, field: &str) -> Option<Self> {
        let names = &call.signed_fields().names;
        names.iter().find(|name| **name == field).map(|name| Self::FieldUnsigned(name))
    }

    /// The field that the call signs under a nearly equal name, and what is said of it. The names differ in case, or in
    /// what is no letter or digit.
    pub(super) fn renamed(call: WalletCall, other: &str) -> Option<(&'static str, Self)> {
        let letters = |name: &str| {
            name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "").to_ascii_lowercase()
        };
        let meant = letters(other);
        let is_it = |name: &&&str| **name != other && letters(name) == meant;
        call.signed_fields().names.iter().find(is_it).map(|name| (*name, Self::FieldRenamed(name)))
    }
}
